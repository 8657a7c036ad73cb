package protocol

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Version is a protocol revision, named by its date.
type Version string

// The published revisions.
const (
	V20241105 Version = "2024-11-05"
	V20250326 Version = "2025-03-26"
	V20250618 Version = "2025-06-18"
	V20251125 Version = "2025-11-25"
	V20260728 Version = "2026-07-28"
)

const Latest = V20260728 // the newest published revision

// An Era is a family of revisions.
type Era int

// Legacy revisions open a session with initialize and let the server push requests; modern
// revisions carry version and capabilities in every request.
const (
	Legacy Era = iota + 1
	Modern
)

// String returns "legacy" or "modern".
func (e Era) String() string {
	switch e {
	case Legacy:
		return "legacy"
	case Modern:
		return "modern"
	}
	return "unknown era"
}

// Era returns the era of v. An unknown revision is modern if its date is 2026-07-28 or later.
func (v Version) Era() Era {
	if v >= V20260728 {
		return Modern
	}
	return Legacy
}

// Known reports whether v is a published revision.
func (v Version) Known() bool {
	switch v {
	case V20241105, V20250326, V20250618, V20251125, V20260728:
		return true
	}
	return false
}

// Versions returns the published revisions, newest first.
func Versions() []Version {
	return []Version{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// decodeVersion reads the declared revision, without allocating for [Latest].
func decodeVersion(raw []byte) (Version, error) {
	text, err := jsonx.TextBytes(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("must be a string")
	case len(text) == 0:
		return "", fmt.Errorf("must not be empty")
	case string(text) == string(Latest):
		return Latest, nil
	}
	return Version(text), nil
}
