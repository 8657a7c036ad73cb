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

// A parsedQuestion is decoded, checked parameters, which it aliases.
type parsedQuestion struct {
	params  json.RawMessage
	kind    protocol.InputKind
	message string
	schema  json.RawMessage // of a form, normalized if possible
	form    *form.Form      // of the schema; nil: none, or too large to keep
	secret  form.Secret     // requested by the form
	url     string          // of URL mode
	id      string          // of URL mode: the upstream's elicitationId
	meta    protocol.Meta
}

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

// jsonDepth returns the nesting of checked JSON: {} is 1.
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

// encodeParams encodes the question for a client of revision v. Members, unknown ones included, are
// passed on unchanged, except that progress token and elicitationId are replaced, and members that
// revision v or the mode lacks are left out: from 2026-07-28 on the progress token too, since
// questions are not requests there.
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
	dst[len(dst)-1] = '}' // the last comma; message is always present
	return dst, nil
}

// appendMeta appends the member _meta and a comma, if there is any.
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

// relayedMember returns a member's value for the client, and whether it is passed on. Unchecked
// members, such as url in form mode, are left out: a client might act on them.
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
			} // else the client may know more than its revision
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

// MetaCall is the _meta member of a question with the [Origin].CallID of the call that caused it. A
// transport that knows the call from the question's stream adds it for [Router.ElicitFrom], as
// package streamhttp does. It is not passed on. An upstream gains nothing by sending it: it can ask
// on the stream of any call on its connection anyway.
const MetaCall = "rondo/call"

// readCallID returns the MetaCall of a question, or "" without a valid one.
func readCallID(params json.RawMessage) string {
	if !bytes.Contains(params, []byte(MetaCall)) {
		return ""
	}
	meta, _ := protocol.Meta(params).Get("_meta")
	return findText(meta, MetaCall)
}

// findText returns a member of a JSON object as text, or "" without one.
func findText(object json.RawMessage, name string) string {
	value, _ := protocol.Meta(object).Get(name)
	text, _ := jsonx.Text(value)
	return text
}

// reservedMeta prefixes the keys of _meta that are only valid on one connection.
const reservedMeta = "io.modelcontextprotocol/"

// isConnectionMeta reports whether a _meta key has reservedMeta, case-insensitively.
func isConnectionMeta(key string) bool {
	return key == MetaCall || strings.EqualFold(key, protocol.MetaProgressToken) ||
		len(key) >= len(reservedMeta) && strings.EqualFold(key[:len(reservedMeta)], reservedMeta)
}

// appendRelayedMeta appends the relayed members of meta, each followed by a comma.
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
