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
	maxPlaces    = 10_000  // chains whose last question is remembered
	maxArguments = 4 << 10 // shown, in bytes
)

// The rows of a chain of questions, beside its visits.
const (
	rowStart = "start" // position of the chain in a period of one TTL
	rowTaken = "taken" // the taker of a question's answer, and the next question
	rowTaker = "taker" // a taker's answer
	rowGiven = "given" // the taker has returned its answer
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
// All calls with the same Binding share a question until it is answered: two identical calls have
// one link. The first call after the answer takes it, the other gets a new question: an answer
// never serves two takers. All methods may be called concurrently, on any replica.
type Questions struct {
	opts QuestionOptions
	page *Page[question, json.RawMessage]
	body *template.Template

	mu   sync.Mutex
	last *recent.Map[string, place] // by chain, to avoid walking it each time
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

// A turn records the taker of a question's answer, and the next question.
type turn struct {
	ID    string    `json:"id"`
	Taker string    `json:"taker,omitempty"` // empty: not answered in time
	Next  string    `json:"next,omitempty"`
	At    time.Time `json:"at"`
}

func (t *turn) next() place {
	if t == nil {
		return place{}
	}
	return place{t.Next, t.At}
}

// A place is a question's position in a chain, and the earliest time when it was asked.
type place struct {
	id    string
	since time.Time
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
	p.last = recent.New[string, place](maxPlaces, p.page.opts.TTL)
	return p, nil
}

// A chain is the sequence of questions of one binding.
type chain struct {
	*roundtrip.PageQuestion
	id, owner string
	taken     string // id of the taker's row
}

func newChain(q *roundtrip.PageQuestion) (*chain, error) {
	if q.Principal.Anonymous() {
		return nil, refuseAnonymous()
	}
	if q.Taker == "" {
		return nil, errors.New("visit: a question without a taker")
	}
	owner := quota.OwnerDigest(q.Principal)
	id := hex.EncodeToString(q.Binding[:]) + "." + owner
	return &chain{q, id, owner, id + "." + q.Taker}, nil
}

// AskOnPage implements [roundtrip.QuestionPage]. A store that is full or down, or an anonymous
// caller, causes a [*protocol.Error], so that no unusable link is returned.
func (p *Questions) AskOnPage(ctx context.Context, q *roundtrip.PageQuestion) (
	*roundtrip.PageReply, error) {
	c, err := newChain(q)
	if err != nil {
		return nil, err
	}
	reply, err := p.askInChain(ctx, c)
	if err != nil {
		return nil, refuseBusy(err)
	}
	return reply, nil
}

func (p *Questions) askInChain(ctx context.Context, c *chain) (*roundtrip.PageReply, error) {
	had, end, err := p.findHeld(ctx, c)
	if err != nil {
		return nil, err
	}
	if had != nil {
		return &roundtrip.PageReply{Answer: end.Data, Key: had.ID}, nil
	}
	at, err := p.findPlace(ctx, c)
	for err == nil {
		var reply *roundtrip.PageReply
		if reply, at, err = p.askAt(ctx, c, at); reply != nil {
			return reply, nil
		}
	}
	return nil, err
}

// askAt returns the state of a question, opened if need be, or the next place.
func (p *Questions) askAt(ctx context.Context, c *chain, at place) (*roundtrip.PageReply, place,
	error) {
	end, err := p.find(ctx, rowOver, at.id)
	switch {
	case err != nil:
		return nil, at, err
	case end != nil && time.Now().Before(lastUse(end)):
		return p.takeAnswer(ctx, c, at.id, end)
	case end != nil:
		return p.passOver(ctx, c, at.id)
	}
	asked, err := p.find(ctx, rowAsked, at.id)
	if err != nil {
		return nil, at, err
	}
	open := asked != nil && time.Now().Before(asked.Ends)
	if asked == nil {
		t, err := p.findTurn(ctx, rowTaken, at.id)
		if t != nil || err != nil { // its answer has expired
			return nil, t.next(), err
		}
		// Later, a new row could collide with an expired one.
		if open = time.Now().Before(at.since.Add(p.page.opts.TTL)); open {
			if err := p.openQuestion(ctx, c, at.id); err != nil {
				return nil, at, err
			}
		}
	}
	if !open {
		return p.passOver(ctx, c, at.id)
	}
	p.remember(c, place{id: at.id})
	return &roundtrip.PageReply{Link: p.page.linkTo(at.id), Key: at.id}, at, nil
}

// lastUse returns the time until which an answer can be taken.
func lastUse(end *record) time.Time {
	if end.Returned {
		return end.Ends
	}
	return end.Until
}

// passOver ends an unanswered question and returns the next place.
func (p *Questions) passOver(ctx context.Context, c *chain, id string) (*roundtrip.PageReply, place,
	error) {
	t, err := p.endTurn(ctx, c, &turn{ID: id}, time.Now())
	return nil, t.next(), err
}

// openQuestion stores a question unless it exists.
func (p *Questions) openQuestion(ctx context.Context, c *chain, id string) error {
	if _, err := form.ParsePeer(c.Form); err != nil {
		return fmt.Errorf("visit: the page cannot show the question: %w", err)
	}
	about := question{Method: c.Method, Target: c.Target, Message: c.Message, Form: c.Form}
	if p.opts.ShowArguments && len(c.Arguments) > 0 {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, c.Arguments, "", "  "); err != nil {
			return fmt.Errorf("visit: the arguments: %w", err)
		}
		about.Arguments = errtext.Mark(pretty.String(), maxArguments)
	}
	data, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	if _, err = p.keepPlace(ctx, c, id); err != nil {
		return err
	}
	err = p.page.put(ctx, rowAsked, id, &record{Owner: c.owner,
		Ends: time.Now().Add(p.page.opts.TTL), Data: data})
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// takeAnswer returns the answer if the taker gets it, or else the next place.
func (p *Questions) takeAnswer(ctx context.Context, c *chain, id string, end *record) (
	*roundtrip.PageReply, place, error) {
	t, err := p.endTurn(ctx, c, &turn{ID: id, Taker: c.Taker}, end.Until)
	if err != nil || t.Taker != c.Taker {
		return nil, t.next(), err
	}
	next := t.next()
	if end, err = p.readHeld(ctx, t); end == nil || err != nil {
		return nil, next, err
	}
	if _, err = p.putTurn(ctx, c, rowTaker, c.taken, t, end.Until); err == nil {
		_, err = p.keepPlace(ctx, c, t.Next)
	}
	if err != nil {
		return nil, next, err
	}
	p.remember(c, next)
	return &roundtrip.PageReply{Answer: end.Data, Key: id}, next, nil
}

// findHeld returns the taker's answer, or nil.
func (p *Questions) findHeld(ctx context.Context, c *chain) (*turn, *record, error) {
	for {
		t, err := p.findTurn(ctx, rowTaker, c.taken)
		if t == nil || err != nil {
			return nil, nil, err
		}
		if end, err := p.readHeld(ctx, t); end != nil || err != nil {
			return t, end, err
		}
		c.taken = c.id + "." + c.Taker + "." + t.ID // the next one to take
	}
}

// readHeld returns a taken answer, nil if it was returned or has expired.
func (p *Questions) readHeld(ctx context.Context, t *turn) (*record, error) {
	if given, err := p.find(ctx, rowGiven, t.ID); given != nil || err != nil {
		return nil, err
	}
	return p.find(ctx, rowOver, t.ID)
}

// ReturnAnswer implements [roundtrip.QuestionPage]. An answer returned while the store fails or the
// next question has its own is lost and asked for again.
func (p *Questions) ReturnAnswer(ctx context.Context, q *roundtrip.PageQuestion) error {
	c, err := newChain(q)
	if err != nil {
		return err
	}
	had, end, err := p.findHeld(ctx, c)
	if err == nil && had == nil {
		return errors.New("visit: the taker has no answer to give back")
	}
	if err == nil {
		err = p.giveBack(ctx, c, had, end)
	}
	return refuseBusy(err)
}

// giveBack moves an answer to the chain's current question.
func (p *Questions) giveBack(ctx context.Context, c *chain, had *turn, end *record) error {
	// Once per answer, so that it is never duplicated.
	err := p.page.put(ctx, rowGiven, had.ID, &record{Owner: c.owner,
		Ends: end.Until.Add(p.page.opts.TTL)})
	if errors.Is(err, errTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	for id := had.Next; ; {
		t, err := p.findTurn(ctx, rowTaken, id)
		if err != nil {
			return err
		}
		if t != nil { // passed over, or answered itself
			id = t.Next
			continue
		}
		err = p.page.put(ctx, rowOver, id, &record{Owner: c.owner, Ends: lastUse(end),
			Returned: true, Data: end.Data})
		if errors.Is(err, errTaken) {
			other, err := p.find(ctx, rowOver, id)
			if other == nil || err != nil || time.Now().Before(lastUse(other)) {
				return err
			}
			if _, _, err = p.passOver(ctx, c, id); err != nil {
				return err
			}
			continue
		}
		if err == nil && p.page.opts.Wake != nil { // tasks that wait for that question
			_ = p.page.opts.Wake(ctx, id)
		}
		if t, unknown := p.findTurn(ctx, rowTaken, id); err != nil || unknown != nil || t == nil ||
			t.Taker != "" {
			return err
		}
	}
}

// findPlace returns the chain's position, as far as known.
func (p *Questions) findPlace(ctx context.Context, c *chain) (place, error) {
	p.mu.Lock()
	at, known := p.last.Get(c.id)
	p.mu.Unlock()
	if known {
		return at, nil
	}
	// The rows of a question are kept for less than two periods after its first period.
	now := p.period()
	for period := now; period > now-3; period-- {
		t, err := p.findTurn(ctx, rowStart, c.startID(period))
		if err != nil {
			return place{}, err
		}
		if t != nil {
			return place{t.ID, t.At}, nil
		}
	}
	t, err := p.keepPlace(ctx, c, rand.Text())
	if err != nil {
		return place{}, err
	}
	return place{t.ID, t.At}, nil
}

func (p *Questions) period() int64 { return time.Now().UnixNano() / int64(p.page.opts.TTL) }

func (c *chain) startID(period int64) string { return c.id + "." + strconv.FormatInt(period, 10) }

// keepPlace stores the chain's position in this period, unless stored.
func (p *Questions) keepPlace(ctx context.Context, c *chain, id string) (*turn, error) {
	period := p.period()
	return p.putTurn(ctx, c, rowStart, c.startID(period), &turn{ID: id},
		time.Unix(0, (period+3)*int64(p.page.opts.TTL)))
}

func (p *Questions) remember(c *chain, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.Put(c.id, at)
}

// endTurn decides, once, who has a question's answer and which is next; its row outlasts both.
func (p *Questions) endTurn(ctx context.Context, c *chain, t *turn, kept time.Time) (*turn,
	error) {
	t.Next = rand.Text()
	until := kept.Add(p.page.opts.TTL)
	if end := time.Now().Add(3 * p.page.opts.TTL); end.After(until) {
		until = end
	}
	return p.putTurn(ctx, c, rowTaken, t.ID, t, until)
}

// putTurn stores a row, or reads the one stored before.
func (p *Questions) putTurn(ctx context.Context, c *chain, row, id string, t *turn,
	until time.Time) (*turn, error) {
	t.At = time.Now()
	data, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	err = p.page.put(ctx, row, id, &record{Owner: c.owner, Ends: until, Data: data})
	if !errors.Is(err, errTaken) {
		return t, err
	}
	if t, err = p.findTurn(ctx, row, id); t == nil && err == nil {
		err = &storeError{errTaken} // expired since
	}
	return t, err
}

// findTurn reads a row, or returns nil.
func (p *Questions) findTurn(ctx context.Context, row, id string) (*turn, error) {
	r, err := p.find(ctx, row, id)
	if r == nil || err != nil {
		return nil, err
	}
	t := &turn{}
	if err := json.Unmarshal(r.Data, t); err != nil {
		return nil, &storeError{err}
	}
	return t, nil
}

// find reads a row, or returns nil.
func (p *Questions) find(ctx context.Context, row, id string) (*record, error) {
	r, err := p.page.get(ctx, row, id)
	if errors.Is(err, store.ErrStateGone) {
		return nil, nil
	}
	return r, err
}
