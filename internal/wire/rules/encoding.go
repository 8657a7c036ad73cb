package rules

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The sentinel that marks a header value as base64 (basic/transports/streamable-http, "Value
// Encoding").
const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// EncodeValue returns value as it may stand in a header: unchanged when it is printable ASCII
// without tabs or surrounding white space, otherwise as base64 between sentinels.
func EncodeValue(value string) string {
	// As in the specification, a value whose prefix and suffix overlap is encoded, although it
	// could not be decoded.
	lookalike := strings.HasPrefix(value, sentinelPrefix) &&
		strings.HasSuffix(value, sentinelSuffix)
	if isPlainHeader(value) && !lookalike && !strings.Contains(value, "\t") {
		return value
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + sentinelSuffix
}

// DecodeValue undoes [EncodeValue]. Values without the sentinels are returned as they are. It is an
// error when what the sentinels enclose is not strict, padded base64 of valid UTF-8, or when a
// plain value has characters that may not stand in a header.
func DecodeValue(value string) (string, error) {
	if len(value) < len(sentinelPrefix)+len(sentinelSuffix) ||
		!strings.HasPrefix(value, sentinelPrefix) || !strings.HasSuffix(value, sentinelSuffix) {
		if !isPlainHeader(value) {
			return "", fmt.Errorf("header value: has characters that must be base64 encoded")
		}
		return value, nil
	}
	encoded := value[len(sentinelPrefix) : len(value)-len(sentinelSuffix)]
	// The decoder skips line breaks, which would make several spellings of one value; a header
	// cannot carry them anyway.
	if strings.ContainsAny(encoded, "\r\n") {
		return "", fmt.Errorf("header value: invalid base64")
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || !utf8.Valid(decoded) {
		return "", fmt.Errorf("header value: invalid base64")
	}
	return string(decoded), nil
}

// isPlainHeader reports whether value may stand in a header as it is: printable ASCII and tabs, no
// surrounding white space, which transports strip.
func isPlainHeader(value string) bool {
	for i := range len(value) {
		if c := value[i]; (c < 0x20 && c != '\t') || c > 0x7e {
			return false
		}
	}
	return strings.TrimSpace(value) == value
}
