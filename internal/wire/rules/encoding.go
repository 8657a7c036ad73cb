package rules

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The base64 sentinel of header values (basic/transports/streamable-http, "Value Encoding").
const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// EncodeValue encodes value for a header: unchanged if it is printable ASCII without tabs or
// surrounding white space, otherwise as base64 between sentinels.
func EncodeValue(value string) string {
	// As specified, a value whose prefix and suffix overlap is encoded too.
	lookalike := strings.HasPrefix(value, sentinelPrefix) &&
		strings.HasSuffix(value, sentinelSuffix)
	if isPlainHeader(value) && !lookalike && !strings.Contains(value, "\t") {
		return value
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + sentinelSuffix
}

// DecodeValue undoes [EncodeValue]. Values without sentinels are returned unchanged. It returns an
// error for base64 that is not strict, padded and of valid UTF-8, and for plain values with
// characters not allowed in a header.
func DecodeValue(value string) (string, error) {
	if len(value) < len(sentinelPrefix)+len(sentinelSuffix) ||
		!strings.HasPrefix(value, sentinelPrefix) || !strings.HasSuffix(value, sentinelSuffix) {
		if !isPlainHeader(value) {
			return "", fmt.Errorf("header value: has characters that must be base64 encoded")
		}
		return value, nil
	}
	encoded := value[len(sentinelPrefix) : len(value)-len(sentinelSuffix)]
	// The decoder skips line breaks, which would allow several spellings of one value.
	if strings.ContainsAny(encoded, "\r\n") {
		return "", fmt.Errorf("header value: invalid base64")
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || !utf8.Valid(decoded) {
		return "", fmt.Errorf("header value: invalid base64")
	}
	return string(decoded), nil
}

// isPlainHeader reports whether value needs no encoding: printable ASCII and tabs, without
// surrounding white space, which transports strip.
func isPlainHeader(value string) bool {
	needsEncoding := func(c rune) bool { return c < 0x20 && c != '\t' || c > 0x7e }
	return strings.TrimSpace(value) == value && !strings.ContainsFunc(value, needsEncoding)
}
