package elicitation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A parsedQuestion is the parameters of elicitation/create, decoded and checked. It aliases
// params, and lives only until the request for the client is encoded.
type parsedQuestion struct {
	params  json.RawMessage
	kind    protocol.InputKind
	message string
	schema  json.RawMessage // of a form, in its normal form if it has one
	form    *form.Form      // of the schema, nil: has none, or too large to keep
	secret  form.Secret     // that the form asks for
	url     string          // of URL mode
	id      string          // of URL mode: the upstream's elicitationId
	meta    protocol.Meta
}

// parseQuestion reads the parameters of elicitation/create, which are within their limit.
func parseQuestion(params json.RawMessage) (*parsedQuestion, error) {
	if err := jsonx.Check(params); err != nil {
		return nil, err
	}
	if jsonx.KindOf(params) != jsonx.Object {
		return nil, errors.New("params must be an object")
	}
	decoded, err := protocol.DecodeInputRequest(protocol.MethodElicit, params)
	if err != nil {
		return nil, err
	}
	q := &parsedQuestion{params: params, kind: decoded.Kind()}
	switch d := decoded.(type) {
	case *protocol.ElicitForm:
		q.message, q.schema, q.meta = d.Message, d.Schema, d.Meta
	case *protocol.ElicitURL:
		q.message, q.url, q.id, q.meta = d.Message, d.URL, d.ElicitationID, d.Meta
	}
	if token, ok := q.meta.Get(protocol.MetaProgressToken); ok {
		_, err = protocol.ParseID(token)
	}
	return q, err
}

// jsonDepth returns how deep checked JSON nests: {} is 1.
func jsonDepth(raw []byte) int {
	deepest, depth, inString := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// encodeParams encodes the question for a client of revision v. What the upstream wrote is passed
// on as it is, members that this package does not know included, except that the progress token is
// token, the elicitationId is elicitationID, and what revision v or the mode does not have is left
// out: from 2026-07-28 on, where questions are no requests, the progress token too.
func (q *parsedQuestion) encodeParams(
	v protocol.Version, token protocol.ID, elicitationID string,
) (json.RawMessage, error) {
	dst := append(make([]byte, 0, len(q.params)+128), '{')
	err := jsonx.Members(q.params, func(key, value []byte) error {
		value, keep, err := q.relayedMember(v, key, value)
		if keep && err == nil {
			dst = append(jsonx.AppendTextBytes(dst, key), ':')
			dst = append(jsonx.AppendCompact(dst, value), ',')
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if q.kind == protocol.KindElicitURL && elicitationID != "" && v.Era() == protocol.Legacy {
		dst = append(jsonx.AppendText(append(dst, `"elicitationId":`...), elicitationID), ',')
	}
	if dst, err = q.appendMeta(dst, v, token); err != nil {
		return nil, err
	}
	dst[len(dst)-1] = '}' // the last comma; the message is always there
	return dst, nil
}

// appendMeta appends the member _meta and a comma, if the question has any.
func (q *parsedQuestion) appendMeta(
	dst []byte, v protocol.Version, token protocol.ID,
) ([]byte, error) {
	const opening = `"_meta":{`
	out, err := appendRelayedMeta(append(dst, opening...), q.meta)
	if err != nil {
		return nil, err
	}
	if v.Era() == protocol.Legacy {
		out = append(out, `"progressToken":`...)
		out = append(append(out, token.String()...), ',')
	}
	if len(out) == len(dst)+len(opening) {
		return dst, nil
	}
	out[len(out)-1] = '}'
	return append(out, ','), nil
}

// relayedMember returns the value of a member of the parameters as the client gets it,
// and whether it gets it. What this package has not checked, for example a url in form
// mode, is left out: a client might act on it.
func (q *parsedQuestion) relayedMember(
	v protocol.Version, key, value []byte,
) (relayed []byte, keep bool, err error) {
	switch string(key) {
	case "_meta", "elicitationId", "task": // encodeParams appends its own; tasks are not declared
		return nil, false, nil
	case "mode":
		return value, v >= protocol.V20251125, nil
	case "url":
		return value, q.kind == protocol.KindElicitURL, nil
	case "requestedSchema":
		value = q.schema
		if q.kind == protocol.KindElicitForm && v < protocol.V20251125 {
			if downgraded, err := form.DowngradeTo20250618(value); err == nil {
				return downgraded, true, nil
			} // else it is not downgraded: the client may know more than its revision
		}
		return value, q.kind == protocol.KindElicitForm, nil
	case "message":
		return value, true, nil
	}
	for _, name := range [...]string{ // many clients ignore case
		"mode", "message", "requestedSchema", "url", "elicitationId", "_meta", "task",
	} {
		if strings.EqualFold(string(key), name) {
			return nil, false, fmt.Errorf(
				"%q differs from a member of elicitation/create in case alone", key)
		}
	}
	return value, true, nil
}

// MetaCall is the member of a question's _meta that has the [Origin].CallID of the call which
// caused it. The upstream does not send it: where the transport knows the call from the stream on
// which the question comes, it adds the member for [Router.ElicitFrom], as package streamhttp does.
// It is not passed on. An upstream that sends it itself gains nothing: it can put a question on the
// stream of any call on its connection.
const MetaCall = "rondo/call"

// readCallID returns what a question names as MetaCall, "" if it names nothing that can be read.
func readCallID(params json.RawMessage) (id string) {
	if !bytes.Contains(params, []byte(MetaCall)) || jsonx.Check(params) != nil {
		return ""
	}
	_ = jsonx.Members(params, func(key, value []byte) error {
		if string(key) != "_meta" || jsonx.KindOf(value) != jsonx.Object {
			return nil
		}
		return jsonx.Members(value, func(key, value []byte) (err error) {
			if string(key) == MetaCall {
				id, err = jsonx.Text(value)
			}
			return err
		})
	})
	return id
}

// reservedMeta begins the keys of _meta that belong to one connection and mean
// nothing, or the wrong thing, on another.
const reservedMeta = "io.modelcontextprotocol/"

// isConnectionMeta reports whether a key of _meta belongs to the connection that it
// came on, also for a peer that ignores case.
func isConnectionMeta(key string) bool {
	return key == MetaCall || strings.EqualFold(key, protocol.MetaProgressToken) ||
		len(key) >= len(reservedMeta) && strings.EqualFold(key[:len(reservedMeta)], reservedMeta)
}

// appendRelayedMeta appends the members of meta that are relayed, each followed by a comma.
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

// relayedMeta returns a copy of the relayed part of an answer's meta, nil if it is empty.
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
