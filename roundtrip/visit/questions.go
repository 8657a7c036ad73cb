package visit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const (
	maxChains    = 10_000  // whose ends are remembered
	maxWaiting   = 64      // calls of a chain that are looked at
	maxUses      = 16      // of an answer that is returned each time
	maxArguments = 4 << 10 // shown, in bytes
)

// The rows of kept calls, beside the visits of their questions.
const (
	rowPlace = "place" // the n-th call kept for a digest in a period: the id of its state
	rowState = "state"
	rowTaken = "taken" // by another call
	rowUsed  = "used"  // the n-th use of an answer
	rowBack  = "back"  // that use did not happen
)

// QuestionOptions configure [NewQuestions].
type QuestionOptions struct {
	// Options apply to all pages. TTL is the time to answer, and then the time to take the answer.
	Options
	Server string // the server's name; empty: the host of the address
	// ShowArguments shows, and stores sealed, the first 4 KiB of the call's arguments.
	ShowArguments bool
	// Template, executed with a [QuestionView], replaces the built-in page if not nil.
	Template *template.Template
}

// Questions is a page that shows the questions of a server as forms: a [roundtrip.QuestionPage].
//
// A call that ends with links is kept for at most two TTL. All methods may be called concurrently,
// on any replica.
type Questions struct {
	opts QuestionOptions
	page *Page[question, json.RawMessage]
	body *template.Template

	mu    sync.Mutex
	known *recent.Map[string, known] // by chain
}

var _ roundtrip.QuestionPage = (*Questions)(nil)

// A question is the data of the page.
type question struct {
	Method    string          `json:"method"`
	Target    string          `json:"target"`
	Arguments string          `json:"arguments,omitempty"`
	Message   string          `json:"message"`
	Form      json.RawMessage `json:"form"`
}

// NewQuestions returns the page at address, as for [NewPage].
func NewQuestions(address string, opts *QuestionOptions) (*Questions, error) {
	if opts == nil {
		opts = &QuestionOptions{}
	}
	p := &Questions{opts: *opts}
	var err error
	if p.page, err = NewPage(address, &opts.Options, p.serve); err != nil {
		return nil, err
	}
	if p.body, err = template.New("question").Parse(questionHTML); err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	p.opts.Server = cmp.Or(opts.Server, p.page.url.Host)
	if p.opts.Template == nil {
		p.opts.Template = p.body
	}
	for _, view := range []QuestionView{{Form: "<form>"}, {Done: protocol.ActionAccept}} {
		var page bytes.Buffer
		if err = p.opts.Template.Execute(&page, &view); err != nil {
			return nil, fmt.Errorf("visit: QuestionOptions.Template: %w", err)
		}
		if !bytes.Contains(page.Bytes(), []byte(view.Form)) {
			return nil, errors.New("visit: QuestionOptions.Template does not show the form")
		}
	}
	p.known = recent.New[string, known](maxChains, 6*p.page.opts.TTL)
	return p, nil
}

// OpenQuestion implements [roundtrip.QuestionPage]. A store that is full or down, or an anonymous
// caller, causes a [*protocol.Error], so that no unusable link is returned.
func (p *Questions) OpenQuestion(ctx context.Context, q *roundtrip.PageQuestion) (
	*roundtrip.PageReply, error) {
	if q.Principal.Anonymous() {
		return nil, refuseAnonymous()
	}
	if _, err := form.ParsePeer(q.Form); err != nil {
		return nil, fmt.Errorf("visit: the page cannot show the question: %w", err)
	}
	about := question{Method: q.Method, Target: q.Target, Message: q.Message, Form: q.Form}
	if p.opts.ShowArguments && len(q.Arguments) > 0 {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, q.Arguments, "", "  "); err != nil {
			return nil, fmt.Errorf("visit: the arguments: %w", err)
		}
		about.Arguments = errtext.Mark(pretty.String(), maxArguments)
	}
	data, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	id, ends := rand.Text(), time.Now().Add(p.page.opts.TTL)
	if !q.Until.IsZero() && q.Until.Before(ends) {
		ends = q.Until
	}
	err = p.page.put(ctx, rowAsked, id, &record{Owner: quota.OwnerDigest(q.Principal), Ends: ends,
		Until: ends.Add(p.page.opts.TTL), Data: data})
	if err != nil {
		return nil, refuseBusy(err)
	}
	return &roundtrip.PageReply{ID: id, Link: p.page.linkTo(id), Message: q.Message,
		Form: q.Form}, nil
}

// FindQuestion implements [roundtrip.QuestionPage]. A question is over one TTL after it was opened,
// and its answer one TTL after it was given.
func (p *Questions) FindQuestion(ctx context.Context, principal protocol.Principal, id string) (
	*roundtrip.PageReply, error) {
	asked, err := p.find(ctx, principal, rowAsked, id)
	if asked == nil || err != nil {
		return nil, refuseBusy(err)
	}
	end, err := p.find(ctx, principal, rowOver, id)
	if err != nil {
		return nil, refuseBusy(err)
	}
	var about question
	if err := json.Unmarshal(asked.Data, &about); err != nil {
		return nil, fmt.Errorf("visit: the stored question: %w", err)
	}
	reply := &roundtrip.PageReply{ID: id, Link: p.page.linkTo(id), Message: about.Message,
		Form: about.Form}
	switch {
	case end != nil && time.Now().Before(end.Until):
		reply.Answer, reply.Given = end.Data, end.Given
	case end != nil, !time.Now().Before(asked.Ends):
		return nil, nil
	}
	return reply, nil
}

// TakeAnswer implements [roundtrip.QuestionPage].
func (p *Questions) TakeAnswer(ctx context.Context, principal protocol.Principal, id string) (
	bool, error) {
	end, err := p.find(ctx, principal, rowOver, id)
	if end == nil || err != nil {
		return false, refuseBusy(err)
	}
	for n := range maxUses {
		use := id + "." + strconv.Itoa(n)
		err := p.page.put(ctx, rowUsed, use, &record{Owner: end.Owner, Ends: end.Until})
		if !errors.Is(err, errTaken) {
			return err == nil, refuseBusy(err)
		}
		back, err := p.find(ctx, principal, rowBack, use)
		if back == nil || err != nil {
			return false, refuseBusy(err)
		}
	}
	return false, nil
}

// ReturnAnswer implements [roundtrip.QuestionPage].
func (p *Questions) ReturnAnswer(ctx context.Context, principal protocol.Principal,
	id string) error {
	end, err := p.find(ctx, principal, rowOver, id)
	for n := 0; end != nil && err == nil && n < maxUses; n++ {
		use := id + "." + strconv.Itoa(n)
		err = p.page.put(ctx, rowBack, use, &record{Owner: end.Owner, Ends: end.Until})
		if !errors.Is(err, errTaken) {
			break
		}
		err = nil
	}
	return refuseBusy(err)
}

// A chain is the sequence of the calls kept for a digest in a period.
type chain struct {
	id string
	n  int // place of a call
	known
}

// The type known is what this replica knows of a chain.
type known struct {
	over int // its first calls are taken or expired
	end  int // place after its calls
}

// chainOf returns a chain of this period, or of a later one.
func (p *Questions) chainOf(c *roundtrip.PageCall, later int64) *chain {
	period := time.Now().UnixNano()/int64(2*p.page.opts.TTL) + later
	at := &chain{id: hex.EncodeToString(c.Digest[:]) + "." + quota.OwnerDigest(c.Principal) + "." +
		strconv.FormatInt(period, 10)}
	p.mu.Lock()
	defer p.mu.Unlock()
	at.known, _ = p.known.Get(at.id)
	return at
}

func (p *Questions) learn(c *chain) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Put(c.id, c.known)
}

func (c *chain) place() string { return c.id + "." + strconv.Itoa(c.n) }

// KeepCall implements [roundtrip.QuestionPage].
func (p *Questions) KeepCall(ctx context.Context, c *roundtrip.PageCall) (kept bool, err error) {
	if c.Principal.Anonymous() {
		return false, refuseAnonymous()
	}
	if c.First { // before anything is stored
		waits := false
		_, err := p.TakeCall(ctx, c, func([]byte) bool { waits = true; return false })
		if waits || err != nil {
			return false, err
		}
	}
	state, err := json.Marshal(string(c.State))
	if err != nil {
		return false, fmt.Errorf("visit: %w", err)
	}
	id, owner, ttl := rand.Text(), quota.OwnerDigest(c.Principal), p.page.opts.TTL
	ends := time.Now().Add(2 * ttl)
	if c.Until.Before(ends) {
		ends = c.Until
	}
	err = p.page.put(ctx, rowState, id, &record{Owner: owner, Ends: ends, Data: state})
	if err != nil {
		return false, refuseBusy(err)
	}
	place := []byte(strconv.Quote(id))
	// A call is kept for at most one period. Looking for it, which is common, takes one chain.
	kept, err = p.addPlace(ctx, c, p.chainOf(c, 0), place, c.First)
	if kept {
		_, _ = p.addPlace(ctx, c, p.chainOf(c, 1), place, false) // it is found in this period anyway
	}
	return kept, refuseBusy(err)
}

// addPlace adds a call to a chain. Places outlast the calls, so that there are no gaps.
func (p *Questions) addPlace(ctx context.Context, c *roundtrip.PageCall, at *chain,
	place []byte, first bool) (added bool, err error) {
	if at.n = at.end; first {
		at.n = at.over
	}
	for ; ; at.n++ {
		err := p.page.put(ctx, rowPlace, at.place(), &record{Owner: quota.OwnerDigest(c.Principal),
			Ends: time.Now().Add(6 * p.page.opts.TTL), Data: place})
		if err == nil {
			at.end = max(at.end, at.n+1)
			p.learn(at)
			return true, nil
		}
		if !errors.Is(err, errTaken) {
			return false, err
		}
		if first {
			_, how, err := p.takeAt(ctx, c, at, func([]byte) bool { return false })
			if err != nil || how == callWaits {
				return false, err
			}
		}
	}
}

// TakeCall implements [roundtrip.QuestionPage].
func (p *Questions) TakeCall(ctx context.Context, c *roundtrip.PageCall,
	wanted func(state []byte) bool) ([]byte, error) {
	at, waiting := p.chainOf(c, 0), 0
	for at.n = at.over; waiting < maxWaiting; at.n++ {
		state, how, err := p.takeAt(ctx, c, at, wanted)
		if state != nil || err != nil || how == callNone {
			return state, refuseBusy(err)
		}
		if how == callWaits {
			waiting++
		} else if at.over == at.n {
			at.over++
			at.end = max(at.end, at.over)
			p.learn(at)
		}
	}
	return nil, nil
}

const (
	callNone = iota
	callOver // taken or expired
	callWaits
)

// takeAt takes the call at a place if it is wanted, and returns its state.
func (p *Questions) takeAt(ctx context.Context, c *roundtrip.PageCall, at *chain,
	wanted func(state []byte) bool) (state []byte, how int, err error) {
	place, err := p.find(ctx, c.Principal, rowPlace, at.place())
	if place == nil || err != nil {
		return nil, callNone, err
	}
	var id, text string
	if err := json.Unmarshal(place.Data, &id); err != nil {
		return nil, callNone, &storeError{err}
	}
	taken, err := p.find(ctx, c.Principal, rowTaken, id)
	if taken != nil || err != nil {
		return nil, callOver, err
	}
	kept, err := p.find(ctx, c.Principal, rowState, id)
	if err != nil || kept == nil || !time.Now().Before(kept.Ends) {
		return nil, callOver, err
	}
	if err := json.Unmarshal(kept.Data, &text); err != nil {
		return nil, callNone, &storeError{err}
	}
	if !wanted([]byte(text)) {
		return nil, callWaits, nil
	}
	err = p.page.put(ctx, rowTaken, id, &record{Owner: kept.Owner,
		Ends: kept.Ends.Add(p.page.opts.TTL)})
	if errors.Is(err, errTaken) {
		return nil, callOver, nil
	}
	if err != nil {
		return nil, callWaits, err
	}
	return []byte(text), callOver, nil
}

// find reads a row of a principal, or returns nil.
func (p *Questions) find(ctx context.Context, principal protocol.Principal, row, id string) (
	*record, error) {
	r, err := p.page.get(ctx, row, id)
	if errors.Is(err, store.ErrStateGone) || err == nil && r.Owner != quota.OwnerDigest(principal) {
		return nil, nil
	}
	return r, err
}
