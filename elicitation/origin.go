package elicitation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// errAbandonedCall is why a question with one call on its connection is refused.
var errAbandonedCall = errors.New(
	"a call that was given up on this connection could have caused it")

// findCall returns the call on a connection that can have caused a question, or the one
// that stands for several. A call that is over counts until its host has ended it: the
// upstream may still work on it, and its questions are not for another client on the
// connection.
func (r *Router) findCall(
	ctx context.Context, upstream UpstreamKey, params json.RawMessage, opts *ElicitOptions,
) (*Call, error) {
	if opts == nil {
		opts = &ElicitOptions{}
	}
	event := AuditEvent{Upstream: upstream, CallID: opts.CallID}
	r.mu.Lock()
	found, refused := r.findCallLocked(upstream, opts, &event)
	r.mu.Unlock()
	if refused != nil {
		return nil, r.recordRejection(ctx, refused, event, params)
	}
	return found, nil
}

// findCallLocked is findCall. It fills in what the event of a refusal has of the calls.
func (r *Router) findCallLocked(upstream UpstreamKey, opts *ElicitOptions,
	event *AuditEvent) (*Call, *Error) {
	var found []*Call
	usable := false
	if u := r.upstreams[upstream]; u != nil { // no call is at ""
		for _, c := range u.calls {
			if c.matchesLocked(opts) {
				found = append(found, c)
				usable = usable || c.checkUsableLocked() == nil
			}
		}
	}
	describeCandidates(found, event)
	var abandoned abandonedCalls
	if opts.CallID == "" && opts.RelatedID.IsZero() {
		abandoned = r.abandoned.find(upstream)
	}
	switch {
	case r.draining:
		return nil, shutdownError()
	case !usable:
		return nil, noSessionError(ReasonNoSession, nil)
	case len(found) == 1 && len(abandoned) == 0:
		return found[0], nil
	}
	if shared := r.newSharedCallLocked(found, abandoned); shared != nil {
		return shared, nil
	}
	err := errAbandonedCall
	if len(found) > 1 {
		err = fmt.Errorf("%d calls could have caused it", len(found))
	}
	return nil, noSessionError(ReasonAmbiguous, err)
}

// matchesLocked reports whether the call agrees with what is known of a question's
// origin. router.mu is held.
func (c *Call) matchesLocked(opts *ElicitOptions) bool {
	return !c.upstreamDone &&
		(opts.CallID == "" || opts.CallID == c.origin.CallID) &&
		(opts.RelatedID.IsZero() || opts.RelatedID == c.relatedID)
}

// newSharedCallLocked returns a call that stands for several, at least one of which can ask.
// It is nil if they are not all of one client, or if that client has no stream but those of
// its requests. The call is in no table until it has a question. Its members are the calls
// that are not over now; it is over when the last of them is.
//
// A client of a revision without requests from servers has no stream of its own: its calls
// wait with no request open, and are asked by themselves or not at all.
func (r *Router) newSharedCallLocked(found []*Call, abandoned abandonedCalls) *Call {
	client, session := found[0].client(), found[0].origin.Session
	if session.info.Via == (Via{}) || session.info.Version.Era() == protocol.Modern {
		return nil
	}
	if !abandoned.areOf(client) {
		return nil
	}
	members := make([]*Call, 0, len(found))
	for _, c := range found {
		if c.origin.Session != session || c.client() != client {
			return nil
		}
		if c.checkUsableLocked() == nil {
			members = append(members, c)
		}
	}
	return &Call{
		router: r, ctx: context.Background(), via: session.info.Via,
		upstream: found[0].upstream, began: time.Now(), members: members,
		unwatch: func() bool { return true },
		origin: Origin{
			Session: session, Principal: client.principal,
			Capabilities: found[0].origin.Capabilities, PauseTimeout: pauseAll(members),
		},
	}
}

// pauseAll returns a PauseTimeout that stops the time limits of all calls.
func pauseAll(calls []*Call) func() (resume func()) {
	return func() func() {
		var resumes []func()
		for _, c := range calls {
			if c.origin.PauseTimeout != nil {
				resumes = append(resumes, c.origin.PauseTimeout())
			}
		}
		return func() {
			for _, resume := range resumes {
				resume()
			}
		}
	}
}

// isOverLocked reports whether the call takes no more questions.
func (c *Call) isOverLocked() bool {
	for _, member := range c.members {
		if !member.over && !member.upstreamDone {
			return false
		}
	}
	return c.over || c.members != nil
}

// insertSharedLocked makes the members of a call that stands for several know it, as long
// as it has a question.
func (c *Call) insertSharedLocked() {
	if c.members == nil {
		return
	}
	c.origin.Session.calls[c] = struct{}{}
	for _, member := range c.members {
		member.shared = append(member.shared, c)
	}
}

// removeSharedLocked undoes insertSharedLocked.
func (c *Call) removeSharedLocked() {
	if c.members == nil {
		return
	}
	delete(c.origin.Session.calls, c)
	for _, member := range c.members {
		member.shared = removeCall(member.shared, c)
	}
}

// leaveSharedLocked returns the questions of calls that stand for this one, which is over,
// and for no other that is not. In the others it ends the wait of this call's request.
func (c *Call) leaveSharedLocked() (last []*pendingQuestion, waits []*waiting.Wait) {
	for _, shared := range c.shared {
		for _, p := range shared.questions {
			if shared.isOverLocked() {
				last = append(last, p)
			} else if w := p.waitOf(c); w != nil {
				waits = append(waits, w)
			}
		}
	}
	return last, waits
}
