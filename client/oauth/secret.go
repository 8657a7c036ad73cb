package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is text that is not printed by package fmt, not logged, and not encoded as JSON.
type Secret string

// Format implements [fmt.Formatter]. It prints "hidden", or "none" if the secret is empty, for
// every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.formatRedacted()) }

// LogValue implements [slog.LogValuer] as Format does.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.formatRedacted()) }

// MarshalText implements [encoding.TextMarshaler] as Format does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.formatRedacted()), nil }

// formatRedacted returns the printed form of the secret.
func (s Secret) formatRedacted() string {
	if s == "" {
		return "none"
	}
	return "hidden"
}
