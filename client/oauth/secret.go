package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is text that is never printed, also not as JSON.
type Secret string

// Format implements [fmt.Formatter]. It prints that there is a secret, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.hidden()) }

// LogValue implements [slog.LogValuer] as Format does.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.hidden()) }

// MarshalText implements [encoding.TextMarshaler] as Format does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.hidden()), nil }

func (s Secret) hidden() string {
	if s == "" {
		return "none"
	}
	return "hidden"
}
