package roundtrip

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/state/seal"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// openState opens the first run of the exchange. It unseals the call's state, decodes it, checks
// its binding and age, and claims it, in this order: each check uses only authenticated data.
//
// For an exact replay it returns a result instead. A refused state returns the frozen error.
func (e *exchange) openState(ctx context.Context) (*run, protocol.Result, error) {
	if e.taskRun() != nil {
		r, err := e.openJournal(ctx)
		return r, nil, err
	}
	responses, state := e.askingMode().retryMembers(e.call)
	r := e.openRun(&e.first, responses, state)
	r.opened = time.Now() // before the time spent in guard and store
	text, present := state.Text()
	if !present {
		return r, nil, nil
	}
	plaintext, err := e.unsealState(ctx, text)
	if err != nil {
		if _, refused := errors.AsType[*rejection](err); refused {
			return nil, nil, e.reportRejection(ctx, err)
		}
		return nil, nil, responder{r}.reportUnserved(ctx, err) // this says nothing about the state
	}
	c, err := r.verifyClaims(plaintext)
	if err != nil {
		return nil, nil, e.reportRejection(ctx, err)
	}
	if c == nil { // expired, and restarted
		return r, nil, nil
	}
	r.locateEvents(c)
	recorded, err := responder{r}.claimState(ctx, c, plaintext)
	if err != nil || recorded != nil {
		return nil, recorded, err
	}
	r.resumeFlow(ctx, c, len(text))
	r.waited = r.opened.Sub(c.Issued)
	return r, nil, nil
}

// openLocalState opens the next run of the same call from the claims of the last run, with the same
// checks as for a client's state. Nobody else can have this state, so it is not claimed.
func (e *exchange) openLocalState(ctx context.Context, encoded []byte, pushed *pushedAnswers,
	state protocol.RequestState) (*run, error) {
	r := e.openRun(&run{took: pushed.took}, pushed.responses, state)
	r.opened = time.Now()
	c, err := r.verifyClaims(encoded)
	if err != nil {
		return nil, e.reportRejection(ctx, err)
	}
	if c != nil { // nil: expired, and restarted
		r.locateEvents(c)
		r.resumeFlow(ctx, c, 0)
	}
	return r, nil
}

// openRun makes r a run of the exchange, the first of its flow unless resumeFlow follows.
func (e *exchange) openRun(
	r *run, responses protocol.InputResponses, state protocol.RequestState,
) *run {
	e.runs++
	e.where.Round = 1
	r.exchange, r.number, r.responses, r.received = e, 1, responses, state
	return r
}

func (r *run) resumeFlow(ctx context.Context, c *claims.Claims, stateBytes int) {
	r.prior, r.number = c, c.Round+1
	r.state, r.memos, r.version = c.State, c.Memos, c.Version
	r.id, r.identified = c.Flow, true
	r.linkSpan(ctx, c)
	if !r.funnel.silent {
		r.observe(ctx,
			event.Resumed{Where: r.where, Waited: r.opened.Sub(c.Issued), StateBytes: stateBytes})
	}
}

// locateEvents sets flow and round of the events that follow, from verified claims.
func (e *exchange) locateEvents(c *claims.Claims) {
	e.where.Round = c.Round + 1
	e.nameFlow(c.Flow)
}

func (e *exchange) nameFlow(flow [16]byte) {
	if !e.funnel.silent {
		e.where.Flow = string(hex.AppendEncode(make([]byte, 0, 32), flow[:]))
	}
}

// unsealState returns the encoded claims of a state, from the seal or the StateStore. An error that
// is not a rejection means only that the store could not be read.
func (e *exchange) unsealState(ctx context.Context, text string) ([]byte, error) {
	if len(text) > e.funnel.opts.Limits.StateBytes {
		return nil, &rejection{reason: words.ReasonTooLong}
	}
	plaintext, err := e.funnel.opts.Sealer.Open(ctx, text)
	if err != nil {
		return nil, &rejection{sealReason(err), err}
	}
	if len(plaintext) > 0 && plaintext[0] == handleLayout {
		return e.loadStored(ctx, plaintext)
	}
	return plaintext, nil
}

// PeekState returns the data kept with [WithState] in a requestState, for hosts that pass requests
// on before they serve them. It checks the seal only, not principal, request and expiry: serving
// the request checks those. A state in the StateStore is found only for its principal.
func (f *Funnel) PeekState(
	ctx context.Context, p protocol.Principal, requestState string,
) (kept json.RawMessage, ok bool) {
	e := &exchange{}
	e.funnel, e.call = f, &Call{Principal: p}
	plaintext, err := e.unsealState(ctx, requestState)
	if err != nil {
		return nil, false
	}
	c, err := claims.Decode(plaintext, &claims.Claims{})
	if err != nil {
		return nil, false
	}
	return c.State, true
}

// verifyClaims decodes and checks claims; it returns nil, nil if RestartExpired restarts the flow.
func (r *run) verifyClaims(plaintext []byte) (*claims.Claims, error) {
	c, err := r.decodeClaims(plaintext)
	if err != nil {
		return nil, err
	}
	if c.Principal != r.bindPrincipal(c.Flow) {
		return nil, r.rejectPrincipal(c)
	}
	if reason := r.checkBinding(c); reason != "" {
		return nil, &rejection{reason: reason}
	}
	now := time.Now()
	switch reason := checkFreshness(c, now); {
	case reason == "":
	case reason == words.ReasonFuture:
		return nil, &rejection{reason, fmt.Errorf("the clock of the replica that sealed it is "+
			"ahead of the clock of this one by %v or more", c.Issued.Sub(now).Round(time.Second))}
	case r.funnel.opts.RestartExpired:
		r.restartFlow()
		return nil, nil
	default:
		return nil, &rejection{reason: reason}
	}
	return c, nil
}

// decodeClaims decodes claims without checking them.
func (e *exchange) decodeClaims(plaintext []byte) (*claims.Claims, error) {
	c, err := claims.Decode(plaintext, &claims.Claims{
		Principal: e.call.Principal, Method: e.call.Method, Target: e.call.Target,
		Audience: e.funnel.opts.Audience,
	})
	if errors.Is(err, claims.ErrLayout) {
		return nil, &rejection{words.ReasonVersion, err}
	}
	if err != nil {
		return nil, &rejection{words.ReasonMalformed, err}
	}
	return c, nil
}

// restartFlow drops the answers that came with an expired state, and the state.
func (r *run) restartFlow() {
	for _, response := range r.responses {
		r.dropped = append(r.dropped, event.Dropped{Key: response.Key, Reason: words.DropExpired})
	}
	r.responses, r.received = nil, protocol.RequestState{}
}

// checkBinding returns the property, other than the principal, in which the call differs from the
// sealed one, or "". The digest of the arguments comes last because it costs most.
func (e *exchange) checkBinding(c *claims.Claims) event.Reason {
	switch {
	case c.Method != e.call.Method:
		return words.ReasonMethod
	case c.Target != e.call.Target:
		return words.ReasonTarget
	case c.Audience != e.funnel.opts.Audience:
		return words.ReasonAudience
	}
	if err := e.ensureArgumentsDigest(); err != nil || c.Arguments != e.arguments {
		return words.ReasonArguments
	}
	return ""
}

func checkFreshness(c *claims.Claims, now time.Time) event.Reason {
	switch {
	case c.Issued.After(now.Add(clockSkew)):
		return words.ReasonFuture
	case !now.Before(c.Deadline):
		return words.ReasonFlowExpired
	case !now.Before(c.Expires):
		return words.ReasonExpired
	}
	return ""
}

func (e *exchange) ensureArgumentsDigest() (err error) {
	if !e.digested {
		e.arguments, err = claims.DigestArguments(e.call.Arguments)
		e.digested = err == nil
	}
	return err
}

// A rejection is a refused state: the observer gets the reason, the client the frozen error.
type rejection struct {
	reason event.Reason
	// The error err comes from sealer, store or decoder; nil for authentic claims that do not fit.
	err error
}

func (r *rejection) Error() string {
	if r.err != nil {
		return fmt.Sprintf("request state: %s: %v", r.reason, r.err)
	}
	return fmt.Sprintf("request state: %s", r.reason)
}

func (r *rejection) Unwrap() error { return r.err }

// reportRejection reports the reason and returns the frozen error, with a new reference.
func (e *exchange) reportRejection(ctx context.Context, err error) error {
	rejected := event.StateRejected{Where: e.where, Reference: newReference(),
		Reason: words.ReasonSealer, Err: err}
	if refused, ok := errors.AsType[*rejection](err); ok {
		rejected.Reason, rejected.Err = refused.reason, refused.err
		if named, ok := errors.AsType[*keys.KeyError](refused.err); ok {
			rejected.KeyID = named.ID
		}
	}
	e.observe(ctx, rejected)
	return invalidState(rejected.Reference)
}

// invalidState is the uniform error for refused states; reference ties it to the server's log.
func invalidState(reference string) *protocol.Error {
	e := &protocol.Error{Code: protocol.CodeInvalidParams,
		Message: "Invalid or expired requestState"}
	return e.WithData(struct {
		Reason    string `json:"reason"`
		Reference string `json:"reference"`
	}{"invalid_request_state", reference})
}

func newReference() string { return uuid.NewString() }

// sealReason maps a failure to open a token to the logged reason.
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
