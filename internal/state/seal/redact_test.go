package seal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/seal"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// TestSecretsNeverPrint prints keys in all ways of Go, also nested, and searches for all spellings.
func TestSecretsNeverPrint(t *testing.T) {
	secret := secretBytes(9)
	key := mustKey(t, "k9", 9)
	ring := mustRing(t, key, mustKey(t, "k8", 8))

	type exported struct {
		Key  seal.Key
		Ring *seal.Keyring
		Ptr  *seal.Key
	}
	type unexported struct { // fmt does not call methods of such fields
		key  seal.Key
		ring seal.Keyring
		ptr  *seal.Key
		any  any
	}
	values := map[string]any{
		"key":               key,
		"pointer to key":    &key,
		"ring":              ring,
		"ring value":        *ring,
		"exported fields":   exported{key, ring, &key},
		"pointer to struct": &exported{key, ring, &key},
		"unexported fields": unexported{key, *ring, &key, ring},
		"slice":             []seal.Key{key},
		"array":             [1]seal.Key{key},
		"map":               map[string]seal.Key{"a": key},
		"slice of any":      []any{key, ring},
		"map of structs":    map[int]unexported{1: {key: key, ring: *ring}},
		"error operand":     fmt.Errorf("wrapped: %v %v", key, ring),
	}
	for name, v := range values {
		t.Run(name, func(t *testing.T) { testkit.CheckSecret(t, secret, v) })
	}
}

// Every verb prints the same description, so that a key is recognizable.
func TestRedactionIsUniform(t *testing.T) {
	key := mustKey(t, "k9", 9)
	ring := mustRing(t, key, mustKey(t, "k8", 8))
	for _, tc := range []struct {
		name string
		v    any
		want string
	}{
		{"key", key, "seal.Key(id=k9, secret redacted)"},
		{"pointer to a key", &key, "seal.Key(id=k9, secret redacted)"},
		{"zero key", seal.Key{}, "seal.Key(zero)"},
		{"pointer to a keyring", ring, "seal.Keyring(ids=k9 k8, secrets redacted)"},
		{"keyring", *ring, "seal.Keyring(ids=k9 k8, secrets redacted)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for how, text := range renderings(t, tc.v) {
				testkit.WantPart(t, "by "+how, text, tc.want)
			}
		})
	}
	var none *seal.Keyring
	if got := fmt.Sprintf("%v", none); got != "<nil>" {
		t.Errorf("nil keyring prints %q", got)
	}
}

func TestNotComparable(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[seal.Key](),
		reflect.TypeFor[seal.Keyring]()} {
		if typ.Comparable() {
			t.Errorf("%v can be compared with ==, which takes variable time", typ)
		}
	}
}

// renderings returns v as text, by the way of conversion.
func renderings(t *testing.T, v any) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, flags := range []string{"", "+", "#", "-80", "080", ".3", " ", "# "} {
		for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
			if verb == 'T' || verb == 'p' { // fmt handles these without methods
				continue
			}
			format := "%" + flags + string(verb)
			out[format] = fmt.Sprintf(format, v)
		}
	}
	out["Sprint"] = fmt.Sprint(v)
	if text, err := json.Marshal(v); err == nil {
		out["json"] = string(text)
	}
	var text, jsonText bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("m", "value", v, slog.Group("g", "value", v))
	slog.New(slog.NewJSONHandler(&jsonText, nil)).Info("m", "value", v, slog.Group("g", "value", v))
	out["slog text"], out["slog json"] = text.String(), jsonText.String()
	return out
}

var noError = testkit.NoError
