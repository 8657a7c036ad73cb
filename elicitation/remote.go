package elicitation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/sleep"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// busTimeout bounds one attempt to reach another replica. Core messages of a network
	// may get lost; owners answer from memory.
	busTimeout = 2 * time.Second
	// busTotalTime bounds all attempts together when the context of the host has no
	// deadline.
	busTotalTime = 30 * time.Second
	// busInterval is the time between two attempts.
	busInterval = 50 * time.Millisecond
)

// The keys on the [Bus]: that of messages about questions, which are sent to their owner by
// name, and a prefix and a digest that stands for a URL elicitation, which is claimed.
const (
	questionBusKey = "q"
	urlKeyPrefix   = "v."
)

func (k urlKey) busKey() string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d:%s%s", len(k.upstream), k.upstream, k.id)))
	return urlKeyPrefix + hex.EncodeToString(sum[:16])
}

// A busMessage is what a replica asks the owner of a key to do.
type busMessage struct {
	Do      string          `json:"do"` // "complete", "progress" or "visited"
	Session string          `json:"session,omitzero"`
	Issuer  string          `json:"issuer,omitzero"`
	Subject string          `json:"subject,omitzero"`
	Local   bool            `json:"local,omitzero"` // the sender is protocol.LocalPrincipal
	Frame   json.RawMessage `json:"frame,omitzero"` // what the client or the upstream sent
	// Attempt is the same each time that a message is sent again, because its answer may
	// have been lost.
	Attempt string `json:"attempt,omitzero"`
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
	owner, ok := r.ownerOf(ctx, reply.ID)
	if !ok || owner == r.busName {
		return Unknown, nil
	}
	frame, err := protocol.AppendMessage(nil, reply)
	if err != nil || len(frame) > r.opts.MaxContentBytes+2*maxOutsideSchema {
		return Invalid, nil // only a host that made the response up gets here
	}
	a, err := r.sendToOwner(ctx, owner, newBusMessage("complete", from, frame))
	return a.Disposition, err
}

// forwardProgress hands progress to the replica that owns the question.
func (r *Router) forwardProgress(
	ctx context.Context, from Sender, n *protocol.Notification,
) (Disposition, error) {
	p, err := decodeProgress(n)
	if err != nil {
		return Unknown, nil
	}
	owner, ok := r.ownerOf(ctx, p.Token)
	if !ok || owner == r.busName {
		return Unknown, nil
	}
	frame, err := protocol.AppendMessage(nil, n)
	if err != nil || len(frame) > maxOutsideSchema {
		return Invalid, nil
	}
	a, err := r.sendToOwner(ctx, owner, newBusMessage("progress", from, frame))
	return a.Disposition, err
}

// forwardURLCompletion hands the completion of a URL elicitation to the replica that
// owns it.
func (r *Router) forwardURLCompletion(ctx context.Context, key urlKey) (Disposition, error) {
	message := busMessage{Do: "visited", Upstream: key.upstream, Visit: key.id}
	a, err := r.sendOnBus(ctx, message, func(ctx context.Context, data []byte) ([]byte, error) {
		return r.opts.Bus.Send(ctx, key.busKey(), data)
	})
	if err == nil && a.Failed != "" {
		err = fmt.Errorf("elicitation: URL completion: %w", ReasonDelivery)
	}
	return a.Disposition, err
}

// sendToOwner sends a message about a question to the replica with a name.
func (r *Router) sendToOwner(ctx context.Context, owner string, m busMessage) (busAnswer, error) {
	return r.sendOnBus(ctx, m, func(ctx context.Context, data []byte) ([]byte, error) {
		return r.opts.Bus.SendTo(ctx, owner, questionBusKey, data)
	})
}

// sendOnBus sends a message again until it is answered, it is known that nobody will answer
// it, or the time is up. That there is no owner is no error: the disposition is Unknown then.
func (r *Router) sendOnBus(
	ctx context.Context, m busMessage, send func(context.Context, []byte) ([]byte, error),
) (busAnswer, error) {
	m.Attempt = newID()
	data, err := jsonx.Encode(m)
	if err != nil {
		return busAnswer{}, fmt.Errorf("elicitation bus: %w", err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, busTotalTime)
		defer cancel()
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, busTimeout)
		raw, err := send(attempt, data)
		cancel()
		switch {
		case err == nil:
			return decodeBusAnswer(raw)
		case errors.Is(err, ErrNoOwner):
			return busAnswer{Disposition: Unknown}, nil
		case errors.Is(err, ErrOwnerDead), errors.Is(err, ErrBusClosed),
			sleep.For(ctx, busInterval) != nil:
			return busAnswer{}, fmt.Errorf("elicitation bus: %w", err)
		}
	}
}

func decodeBusAnswer(raw []byte) (a busAnswer, err error) {
	if err := jsonx.Decode(raw, &a); err != nil {
		return busAnswer{}, fmt.Errorf("elicitation bus: answer: %w", err)
	}
	return a, nil
}

// answerBusMessage answers a message of another replica about what this one owns.
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
		if !ok || key != questionBusKey || reply.ID.IsZero() {
			return busAnswer{Disposition: Invalid, Failed: "frame"}
		}
		return busAnswer{Disposition: r.handleReplyLocally(m.sender(), reply, m.Attempt)}
	case "progress":
		n, ok := decodeFrame[*protocol.Notification](m.Frame)
		if !ok || key != questionBusKey {
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
