package roundtrip

import (
	"errors"

	"github.com/rondo-mcp/rondo/internal/state/seal"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// hardMaxStateBytes is the longest requestState that any funnel sends or
// reads, whatever its options say: state rides in every retry, and headers,
// proxies and clients have limits of their own.
const hardMaxStateBytes = 64 << 10

// sealReason maps a failure to open a token to the reason in the log.
func sealReason(err error) event.Reason {
	for _, m := range []struct {
		err    error
		reason event.Reason
	}{
		{keys.ErrMalformed, words.ReasonMalformed},
		{seal.ErrTooLong, words.ReasonTooLong},
		{seal.ErrAlphabet, words.ReasonMalformed},
		{seal.ErrTruncated, words.ReasonMalformed},
		{seal.ErrNonCanonical, words.ReasonMalformed},
		{keys.ErrVersion, words.ReasonVersion},
		{keys.ErrUnknownKey, words.ReasonUnknownKey},
		{keys.ErrForeignEphemeral, words.ReasonForeignEphemeral},
		{keys.ErrTampered, words.ReasonTampered},
	} {
		if errors.Is(err, m.err) {
			return m.reason
		}
	}
	return words.ReasonSealer
}
