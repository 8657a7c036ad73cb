package roundtrip

import (
	"errors"

	"github.com/rondo-mcp/rondo/internal/state/seal"
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
		{keys.ErrMalformed, event.ReasonMalformed},
		{seal.ErrTooLong, event.ReasonTooLong},
		{seal.ErrAlphabet, event.ReasonMalformed},
		{seal.ErrTruncated, event.ReasonMalformed},
		{seal.ErrNonCanonical, event.ReasonMalformed},
		{keys.ErrVersion, event.ReasonVersion},
		{keys.ErrUnknownKey, event.ReasonUnknownKey},
		{keys.ErrForeignEphemeral, event.ReasonForeignEphemeral},
		{keys.ErrTampered, event.ReasonTampered},
	} {
		if errors.Is(err, m.err) {
			return m.reason
		}
	}
	return event.ReasonSealer
}
