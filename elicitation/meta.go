package elicitation

import (
	"encoding/json"
	"strings"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// reservedMeta begins the keys of _meta that speak of one connection and mean
// nothing, or the wrong thing, on another.
const reservedMeta = "io.modelcontextprotocol/"

// isConnectionMeta tells whether a key of _meta belongs to the connection that it came on,
// also for a peer that ignores case.
func isConnectionMeta(key string) bool {
	return strings.EqualFold(key, protocol.MetaProgressToken) ||
		len(key) >= len(reservedMeta) && strings.EqualFold(key[:len(reservedMeta)], reservedMeta)
}

// appendRelayedMeta appends the members of meta that are passed on to the other side,
// each followed by a comma.
func appendRelayedMeta(dst []byte, meta protocol.Meta) ([]byte, error) {
	if meta == nil {
		return dst, nil
	}
	err := jsonx.Members(json.RawMessage(meta), func(key, value []byte) error {
		if isConnectionMeta(string(key)) {
			return nil
		}
		dst = append(jsonx.AppendTextBytes(dst, key), ':')
		dst = append(jsonx.AppendCompact(dst, value), ',')
		return nil
	})
	return dst, err
}

// relayedMeta is what of an answer's meta is passed on, nil for nothing. It aliases
// nothing of meta.
func relayedMeta(meta protocol.Meta) (protocol.Meta, error) {
	if meta == nil {
		return nil, nil
	}
	dst, err := appendRelayedMeta(append(make([]byte, 0, len(meta)), '{'), meta)
	if err != nil || len(dst) == 1 {
		return nil, err
	}
	dst[len(dst)-1] = '}' // the last comma
	return protocol.Meta(dst), nil
}
