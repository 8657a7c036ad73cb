package seal

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
)

// Every common conversion to text gives the same description. Value receivers cover pointers too.

// String describes the key by its id.
func (k Key) String() string {
	if k.derive == nil {
		return "seal.Key(zero)"
	}
	return "seal.Key(id=" + k.id + ", secret redacted)"
}

// GoString is [Key.String].
func (k Key) GoString() string { return k.String() }

// Format writes [Key.String] for every verb and flag.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue returns [Key.String], for slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns [Key.String]. Keys cannot be unmarshalled.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MarshalJSON is [Key.String] as a JSON string.
func (k Key) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, k.String()), nil }

// String describes the keyring by the ids of its keys, the primary first.
func (r Keyring) String() string {
	return "seal.Keyring(ids=" + strings.Join(r.IDs(), " ") + ", secrets redacted)"
}

// GoString is [Keyring.String].
func (r Keyring) GoString() string { return r.String() }

// Format writes [Keyring.String] for every verb and flag.
func (r Keyring) Format(f fmt.State, _ rune) { io.WriteString(f, r.String()) }

// LogValue is [Keyring.String], for slog.
func (r Keyring) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText is [Keyring.String].
func (r Keyring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// MarshalJSON is [Keyring.String] as a JSON string.
func (r Keyring) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, r.String()), nil }
