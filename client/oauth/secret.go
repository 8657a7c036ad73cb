package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is text that package fmt does not print, and that is neither logged nor encoded as JSON.
type Secret string

// Format implements [fmt.Formatter]. It prints "hidden", or "none" if the secret is empty.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.LogValue().String()) }

// MarshalText implements [encoding.TextMarshaler] as Format does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.LogValue().String()), nil }

// LogValue implements [slog.LogValuer] as Format does.
func (s Secret) LogValue() slog.Value {
	if s == "" {
		return slog.StringValue("none")
	}
	return slog.StringValue("hidden")
}
