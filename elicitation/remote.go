package elicitation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// What replicas say to each other. The keys are "q." and the id of a question,
// and "v." and a digest that stands for a visit to a URL.
const (
	questionKeyPrefix = "q."
	urlKeyPrefix      = "v."
)

func questionBusKey(id protocol.ID) string { return questionKeyPrefix + hexID(id) }

func (k urlKey) busKey() string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d:%s%s", len(k.upstream), k.upstream, k.id)))
	return urlKeyPrefix + hex.EncodeToString(sum[:16])
}

// isQuestionID reports whether id could be one of a router's: nothing else is
// asked for on the bus.
func isQuestionID(id protocol.ID) bool {
	s := id.String()
	if len(s) != 34 || s[0] != '"' {
		return false
	}
	for _, c := range []byte(s[1:33]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// A busMessage is what a replica asks the owner of a key to do.
type busMessage struct {
	Do      string          `json:"do"` // "complete", "progress" or "visited"
	Session string          `json:"session,omitzero"`
	Issuer  string          `json:"issuer,omitzero"`
	Subject string          `json:"subject,omitzero"`
	Frame   json.RawMessage `json:"frame,omitzero"` // what the client or the upstream sent
	// Upstream and Visit name a visit to a URL.
	Upstream UpstreamKey `json:"upstream,omitzero"`
	Visit    string      `json:"visit,omitzero"`
}

// A busAnswer is what the owner says.
type busAnswer struct {
	Disposition Disposition `json:"disposition"`
	Failed      string      `json:"failed,omitzero"`
}

func (m *busMessage) sender() From { return From{m.Session, Principal{m.Issuer, m.Subject}} }

// forwardReply hands a reply to the replica that owns the question.
func (r *Router) forwardReply(ctx context.Context, from From, reply *protocol.Response) (Disposition, error) {
	frame, err := protocol.AppendMessage(nil, reply)
	if err != nil || len(frame) > r.opts.MaxContentBytes+2*maxOutsideSchema {
		return Invalid, nil // only a host that made the response up gets here
	}
	a, err := r.sendToOwner(ctx, questionBusKey(reply.ID), busMessage{
		Do: "complete", Session: from.Session, Issuer: from.Principal.Issuer, Subject: from.Principal.Subject, Frame: frame,
	})
	if err != nil {
		return Unknown, err
	}
	return a.Disposition, nil
}

// sendToOwner asks the owner of key. Nobody owning it is an answer, too.
func (r *Router) sendToOwner(ctx context.Context, key string, m busMessage) (busAnswer, error) {
	data, err := jsonx.Encode(m)
	if err != nil {
		return busAnswer{}, fmt.Errorf("elicitation bus: %w", err)
	}
	raw, err := r.opts.Bus.Send(ctx, key, data)
	switch {
	case err == nil:
	case isUnclaimed(err):
		return busAnswer{Disposition: Unknown}, nil
	default:
		return busAnswer{}, fmt.Errorf("elicitation bus: %w", err)
	}
	var a busAnswer
	if err := jsonx.Decode(raw, &a); err != nil {
		return busAnswer{}, fmt.Errorf("elicitation bus: answer: %w", err)
	}
	return a, nil
}

// answerBusMessage is what this replica says to others about what it owns.
func (r *Router) answerBusMessage(ctx context.Context, key string, message []byte) []byte {
	a := r.handleBusMessage(ctx, key, message)
	data, err := jsonx.Encode(a)
	if err != nil {
		return []byte(`{"disposition":0}`)
	}
	return data
}

func (r *Router) handleBusMessage(ctx context.Context, key string, message []byte) busAnswer {
	var m busMessage
	if err := jsonx.Decode(message, &m); err != nil {
		return busAnswer{Disposition: Invalid, Failed: "message"}
	}
	switch m.Do {
	case "complete":
		reply, ok := decodeFrame[*protocol.Response](m.Frame)
		if !ok || !isQuestionID(reply.ID) || questionBusKey(reply.ID) != key {
			return busAnswer{Disposition: Invalid, Failed: "frame"}
		}
		return busAnswer{Disposition: r.completeLocally(m.sender(), reply)}
	case "progress":
		n, ok := decodeFrame[*protocol.Notification](m.Frame)
		if !ok || progressBusKey(n) != key {
			return busAnswer{Disposition: Invalid, Failed: "frame"}
		}
		return busAnswer{Disposition: r.progressLocally(m.sender(), n)}
	case "visited":
		visit := urlKey{m.Upstream, m.Visit}
		if visit.busKey() != key {
			return busAnswer{Disposition: Invalid, Failed: "key"}
		}
		d, err := r.completeURLLocally(ctx, visit)
		if err != nil {
			return busAnswer{Disposition: d, Failed: "delivery"}
		}
		return busAnswer{Disposition: d}
	}
	return busAnswer{Disposition: Invalid, Failed: "unknown request"}
}

func decodeFrame[M protocol.Message](frame []byte) (m M, ok bool) {
	decoded, err := protocol.DecodeMessage(frame)
	if err != nil {
		return m, false
	}
	m, ok = decoded.(M)
	return m, ok
}
