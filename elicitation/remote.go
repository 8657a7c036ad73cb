package elicitation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// The keys on the [Bus] are a prefix and the id of a question, or a prefix and a digest
// that stands for a URL elicitation.
const (
	questionKeyPrefix = "q."
	urlKeyPrefix      = "v."
)

func questionBusKey(id protocol.ID) string { return questionKeyPrefix + hexID(id) }

func (k urlKey) busKey() string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d:%s%s", len(k.upstream), k.upstream, k.id)))
	return urlKeyPrefix + hex.EncodeToString(sum[:16])
}

// isQuestionID reports whether id could be one of a router's: others are never looked
// for on the bus.
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
	Local   bool            `json:"local,omitzero"` // the sender is protocol.LocalPrincipal
	Frame   json.RawMessage `json:"frame,omitzero"` // what the client or the upstream sent
	// Upstream and Visit name a URL elicitation.
	Upstream UpstreamKey `json:"upstream,omitzero"`
	Visit    string      `json:"visit,omitzero"`
}

// A busAnswer is what the owner answers.
type busAnswer struct {
	Disposition Disposition `json:"disposition"`
	Failed      string      `json:"failed,omitzero"`
}

func newBusMessage(do string, from Sender, frame []byte) busMessage {
	return busMessage{
		Do: do, Session: from.Session, Issuer: from.Principal.Issuer,
		Subject: from.Principal.Subject, Local: from.Principal.IsLocal(), Frame: frame,
	}
}

// sender is who sent the frame to the replica that the message comes from.
func (m *busMessage) sender() Sender {
	if m.Local {
		return Sender{m.Session, protocol.LocalPrincipal()}
	}
	return Sender{m.Session, protocol.Principal{Issuer: m.Issuer, Subject: m.Subject}}
}

// forwardReply hands a reply to the replica that owns the question.
func (r *Router) forwardReply(
	ctx context.Context, from Sender, reply *protocol.Response,
) (Disposition, error) {
	frame, err := protocol.AppendMessage(nil, reply)
	if err != nil || len(frame) > r.opts.MaxContentBytes+2*maxOutsideSchema {
		return Invalid, nil // only a host that made the response up gets here
	}
	a, err := r.sendToOwner(ctx, questionBusKey(reply.ID), newBusMessage("complete", from, frame))
	return a.Disposition, err
}

// forwardProgress hands progress to the replica that owns the question.
func (r *Router) forwardProgress(
	ctx context.Context, from Sender, n *protocol.Notification,
) (Disposition, error) {
	key := progressBusKey(n)
	if key == "" {
		return Unknown, nil
	}
	frame, err := protocol.AppendMessage(nil, n)
	if err != nil || len(frame) > maxOutsideSchema {
		return Invalid, nil
	}
	a, err := r.sendToOwner(ctx, key, newBusMessage("progress", from, frame))
	return a.Disposition, err
}

// progressBusKey returns the key of the question that n is about, "" if of none.
func progressBusKey(n *protocol.Notification) string {
	if p, err := decodeProgress(n); err == nil && isQuestionID(p.Token) {
		return questionBusKey(p.Token)
	}
	return ""
}

// forwardURLCompletion hands the completion of a URL elicitation to the replica that
// owns it.
func (r *Router) forwardURLCompletion(ctx context.Context, key urlKey) (Disposition, error) {
	message := busMessage{Do: "visited", Upstream: key.upstream, Visit: key.id}
	a, err := r.sendToOwner(ctx, key.busKey(), message)
	if err == nil && a.Failed != "" {
		err = fmt.Errorf("elicitation: URL completion: %w", ReasonDelivery)
	}
	return a.Disposition, err
}

// sendToOwner sends a message to the owner of key. That there is no owner is no error:
// the disposition is Unknown then.
func (r *Router) sendToOwner(ctx context.Context, key string, m busMessage) (busAnswer, error) {
	data, err := jsonx.Encode(m)
	if err != nil {
		return busAnswer{}, fmt.Errorf("elicitation bus: %w", err)
	}
	raw, err := r.opts.Bus.Send(ctx, key, data)
	switch {
	case errors.Is(err, ErrNoOwner):
		return busAnswer{Disposition: Unknown}, nil
	case err != nil:
		return busAnswer{}, fmt.Errorf("elicitation bus: %w", err)
	}
	var a busAnswer
	if err := jsonx.Decode(raw, &a); err != nil {
		return busAnswer{}, fmt.Errorf("elicitation bus: answer: %w", err)
	}
	return a, nil
}

// answerBusMessage answers a message of another replica about what this one has claimed.
// The bus calls it.
func (r *Router) answerBusMessage(ctx context.Context, key string, message []byte) []byte {
	a := r.handleBusMessage(ctx, key, message)
	data, err := jsonx.Encode(a)
	if err != nil {
		return []byte(`{"disposition":0}`)
	}
	return data
}

// handleBusMessage does what the message asks for, if that is about key.
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
		return busAnswer{Disposition: r.handleReplyLocally(m.sender(), reply)}
	case "progress":
		n, ok := decodeFrame[*protocol.Notification](m.Frame)
		if !ok || progressBusKey(n) != key {
			return busAnswer{Disposition: Invalid, Failed: "frame"}
		}
		return busAnswer{Disposition: r.handleProgressLocally(m.sender(), n)}
	case "visited":
		u := urlKey{m.Upstream, m.Visit}
		if u.busKey() != key {
			return busAnswer{Disposition: Invalid, Failed: "key"}
		}
		d, err := r.completeURLLocally(ctx, u)
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
