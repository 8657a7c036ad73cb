package testkit

// This file checks that secrets are never printed: by any verb, nested, by slog, or encoded.

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
)

const minSecret = 8 // shorter secrets occur by chance

// CheckSecret fails t if a value, printed in any of these ways, shows secret. A secret under eight
// bytes is refused: a match would prove nothing. Pass value and pointer if both are used.
func CheckSecret(t testing.TB, secret []byte, values ...any) {
	t.Helper()
	if len(secret) < minSecret {
		t.Errorf("testkit: the secret has %d bytes, want at least %d", len(secret), minSecret)
		return
	}
	if len(values) == 0 {
		t.Error("testkit: no values to check")
		return
	}
	guises := guisesOf(secret)
	for _, value := range values {
		for _, p := range printings(value) {
			if name := guises.find(p.text); name != "" {
				t.Errorf("testkit: %T printed with %s shows the secret as %s", value, p.how,
					name)
			}
		}
	}
}

type guise struct {
	name, text string
	fold       bool // case is ignored
}

type guises []guise

func guisesOf(secret []byte) guises {
	// The end of base64 varies, so search whole groups: three bytes, or five for base32.
	groups3, groups5 := secret[:len(secret)/3*3], secret[:len(secret)/5*5]
	return guises{
		{name: "raw bytes", text: string(secret)},
		{name: "a quoted string", text: inner(strconv.Quote(string(secret)))},
		{name: "an ASCII-quoted string", text: inner(strconv.QuoteToASCII(string(secret)))},
		{name: "a JSON string", text: jsonString(secret)},
		{name: "hex", text: hex.EncodeToString(secret), fold: true},
		{name: "spaced hex", text: fmt.Sprintf("% x", secret), fold: true},
		{name: "Go syntax", text: inner(strings.TrimPrefix(fmt.Sprintf("%#v", secret), "[]byte"))},
		{name: "prefixed hex", text: fmt.Sprintf("%# x", secret), fold: true},
		{name: "base64", text: base64.StdEncoding.EncodeToString(groups3)},
		{name: "base64url", text: base64.URLEncoding.EncodeToString(groups3)},
		{name: "base32", text: base32.StdEncoding.EncodeToString(groups5), fold: true},
		{name: "decimal bytes", text: joined(secret, "%d", " ")},
		{name: "a JSON array", text: joined(secret, "%d", ",")},
		{name: "octal bytes", text: joined(secret, "%o", " ")},
		{name: "binary bytes", text: joined(secret, "%b", " ")},
		{name: "characters", text: joined(secret, "%c", " ")},
		{name: "quoted characters", text: joined(secret, "%q", " ")},
		{name: "code points", text: joined(secret, "%U", " ")},
	}
}

// find names the first guise that text contains, or returns "".
func (g guises) find(text string) string {
	folded := strings.ToLower(text)
	for _, guise := range g {
		if guise.fold && strings.Contains(folded, strings.ToLower(guise.text)) ||
			strings.Contains(text, guise.text) {
			return guise.name
		}
	}
	return ""
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

func jsonString(secret []byte) string {
	out, _ := json.Marshal(string(secret)) // a string has no error
	return inner(string(out))
}

func joined(secret []byte, verb, separator string) string {
	parts := make([]string, len(secret))
	for i, b := range secret {
		parts[i] = fmt.Sprintf(verb, b)
	}
	return strings.Join(parts, separator)
}

type printing struct{ how, text string }

type exported struct{ Value any }
type unexported struct{ value any }

// nestings returns shapes around a value. fmt calls no methods of values in unexported fields.
func nestings(value any) map[string]any {
	return map[string]any{
		"itself":              value,
		"a pointer":           &value,
		"a struct":            exported{Value: value},
		"an unexported field": unexported{value: value},
		"a pointer to struct": &unexported{value: value},
		"a slice":             []any{value},
		"an array":            [1]any{value},
		"a map":               map[string]any{"value": value},
	}
}

func printings(value any) []printing {
	var all []printing
	for where, nested := range nestings(value) {
		for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
			for _, flags := range []string{"", "+", "#", " ", "# ", "0", "-10", ".3", "+#"} {
				format := "%" + flags + string(verb)
				all = append(all, printing{format + " in " + where, fmt.Sprintf(format, nested)})
			}
		}
		all = append(all, printing{"fmt.Sprint in " + where, fmt.Sprint(nested)})
		err, isError := nested.(error)
		if !isError { // a wrapped value can show the secret, too
			err = fmt.Errorf("%v", nested)
		}
		all = append(all, printing{"%w in " + where, fmt.Errorf("wrapped: %w", err).Error()})
		out, err := json.Marshal(nested)
		all = append(all, printing{"encoding/json in " + where, fmt.Sprint(string(out), err)},
			printing{"slog text in " + where, logged(nested, slog.NewTextHandler)},
			printing{"slog JSON in " + where, logged(nested, slog.NewJSONHandler)})
	}
	return all
}

func logged[H slog.Handler](value any, handler func(io.Writer, *slog.HandlerOptions) H) string {
	var out bytes.Buffer
	logger := slog.New(handler(&out, nil))
	logger.Info("direct", "value", value)
	logger.Info("grouped", slog.Group("group", slog.Any("value", value)))
	logger.With("value", value).Info("carried")
	return out.String()
}
