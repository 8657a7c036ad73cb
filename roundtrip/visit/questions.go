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
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const (
	// maxPlaces is of how many chains a process remembers the last question.
	maxPlaces = 10_000
	// maxArguments is how much of a call's arguments the page shows, in bytes.
	maxArguments = 4 << 10
)

// The rows of a chain of questions, beside those of its visits.
const (
	rowStart = "start" // where the chain is, as of a period of one TTL
	rowTaken = "taken" // who has the answer of a question, and which question is next
	rowTaker = "taker" // which answer a taker has
)

// QuestionOptions configure [NewQuestions].
type QuestionOptions struct {
	// Options are those of all pages. TTL is how long a question is open, and for how long its
	// answer can be taken afterwards.
	Options
	// Server is the name under which the page asks. Empty: the host of its address.
	Server string
	// ShowArguments shows the arguments of the call, the first 4 KiB of them. They are stored for
	// that, sealed.
	ShowArguments bool
	// Template is the page in place of the one that is built in. It is executed with a
	// [QuestionView]. Nil: the one that is built in.
	Template *template.Template
}

// Questions is a page that shows the questions of a server as forms: a [roundtrip.QuestionPage].
//
// A question that was asked is the same for all calls with its Binding until it is answered: two
// identical calls at once have one question and one link. Who comes first after the answer takes
// it, and the other is led to a new question. One answer never serves two takers. All methods may
// be called concurrently, on any replica.
type Questions struct {
	opts QuestionOptions
	page *Page[question, json.RawMessage]
	body *template.Template

	mu   sync.Mutex
	last *recent.Map[string, string] // question of a chain, so that it is not walked each time
}

var _ roundtrip.QuestionPage = (*Questions)(nil)

// A question is what the page shows.
type question struct {
	Method    string          `json:"method"`
	Target    string          `json:"target"`
	Arguments string          `json:"arguments,omitempty"`
	Message   string          `json:"message"`
	Form      json.RawMessage `json:"form"`
}

// A turn is what is known of the answer of a question: who has it, and which question is next.
type turn struct {
	ID    string `json:"id"`
	Taker string `json:"taker,omitempty"` // empty: nobody answered in time
	Next  string `json:"next,omitempty"`
}

// NewQuestions returns the page at address, which has to be one as [NewPage] takes it.
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
	p.last = recent.New[string, string](maxPlaces, p.page.opts.TTL)
	return p, nil
}

// A chain is the questions of one binding, one after the other.
type chain struct {
	*roundtrip.PageQuestion
	id, owner string
}

func newChain(q *roundtrip.PageQuestion) (*chain, error) {
	if q.Principal.Anonymous() {
		return nil, refuseAnonymous()
	}
	if q.Taker == "" {
		return nil, errors.New("visit: a question without a taker")
	}
	owner := quota.OwnerDigest(q.Principal)
	return &chain{q, hex.EncodeToString(q.Binding[:]) + "." + owner, owner}, nil
}

// takerID names the row about what the taker has.
func (c *chain) takerID() string { return c.id + "." + c.Taker }

// AskOnPage implements [roundtrip.QuestionPage]. A store that is full or down, and a caller who is
// anonymous, are a [*protocol.Error]: no link is returned that could not be used.
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
	if had, err := p.getTurn(ctx, rowTaker, c.takerID()); err == nil {
		reply, err := p.repeatAnswer(ctx, had)
		if reply != nil || err != nil {
			return reply, err
		}
	} else if !errors.Is(err, store.ErrStateGone) {
		return nil, err
	}
	id, err := p.findPlace(ctx, c)
	for err == nil {
		var reply *roundtrip.PageReply
		if reply, id, err = p.askAt(ctx, c, id); reply != nil {
			return reply, nil
		}
	}
	return nil, err
}

// askAt returns what is known of a question of the chain, which it opens if need be, or else the id
// of the next.
func (p *Questions) askAt(ctx context.Context, c *chain, id string) (reply *roundtrip.PageReply,
	next string, err error) {
	end, err := p.page.get(ctx, rowOver, id)
	if err == nil {
		return p.takeAnswer(ctx, c, id, end)
	}
	if !errors.Is(err, store.ErrStateGone) {
		return nil, "", err
	}
	asked, err := p.page.get(ctx, rowAsked, id)
	switch {
	case err == nil && time.Now().Before(asked.Ends):
		p.remember(c, id)
		return &roundtrip.PageReply{Link: p.page.linkTo(id), Key: id}, "", nil
	case err == nil: // nobody has answered in time
		next, err = p.passOver(ctx, c, id)
		return nil, next, err
	case !errors.Is(err, store.ErrStateGone):
		return nil, "", err
	}
	t, err := p.getTurn(ctx, rowTaken, id)
	if err == nil { // and its answer is not kept any longer
		return nil, t.Next, nil
	}
	if !errors.Is(err, store.ErrStateGone) {
		return nil, "", err
	}
	err = p.openQuestion(ctx, c, id)
	if _, down := errors.AsType[*storeError](err); down && !isFull(err) {
		// Perhaps there is a row that has expired and is not deleted yet.
		if next, ended := p.passOver(ctx, c, id); ended == nil {
			return nil, next, nil
		}
	}
	return nil, id, err
}

func isFull(err error) bool {
	_, full := errors.AsType[*store.QuotaError](err)
	return full
}

// passOver ends a question that nobody has answered, and returns the id of the next.
func (p *Questions) passOver(ctx context.Context, c *chain, id string) (string, error) {
	t, err := p.endTurn(ctx, c, &turn{ID: id}, time.Now().Add(3*p.page.opts.TTL))
	return t.Next, err
}

// openQuestion makes sure that the row of a question exists.
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

// takeAnswer returns the answer of a question if the taker gets it, and else the next question.
func (p *Questions) takeAnswer(ctx context.Context, c *chain, id string, end *record) (
	reply *roundtrip.PageReply, next string, err error) {
	// Who has the answer is known for longer than the answer.
	t, err := p.endTurn(ctx, c, &turn{ID: id, Taker: c.Taker}, end.Until.Add(p.page.opts.TTL))
	if err != nil || t.Taker != c.Taker {
		return nil, t.Next, err
	}
	if reply, err = p.repeatAnswer(ctx, t); reply == nil || err != nil {
		return nil, t.Next, err
	}
	if _, err = p.putTurn(ctx, c, rowTaker, c.takerID(), t, end.Until); err == nil {
		_, err = p.keepPlace(ctx, c, t.Next)
	}
	if err != nil {
		return nil, "", err
	}
	p.remember(c, t.Next)
	return reply, "", nil
}

// repeatAnswer returns the answer that a taker has, nil if it was given back or is not kept any
// longer.
func (p *Questions) repeatAnswer(ctx context.Context, t *turn) (*roundtrip.PageReply, error) {
	next, err := p.page.get(ctx, rowOver, t.Next)
	if err == nil && next.Returned {
		return nil, nil
	}
	if err != nil && !errors.Is(err, store.ErrStateGone) {
		return nil, err
	}
	end, err := p.page.get(ctx, rowOver, t.ID)
	if errors.Is(err, store.ErrStateGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &roundtrip.PageReply{Answer: end.Data, Key: t.ID}, nil
}

// ReturnAnswer implements [roundtrip.QuestionPage]. It gives back what the page has stored. The
// answer is not kept for longer by that.
func (p *Questions) ReturnAnswer(ctx context.Context, q *roundtrip.PageQuestion,
	_ json.RawMessage) error {
	c, err := newChain(q)
	if err != nil {
		return err
	}
	t, err := p.getTurn(ctx, rowTaker, c.takerID())
	if errors.Is(err, store.ErrStateGone) {
		return errors.New("visit: the taker has no answer to give back")
	}
	if err != nil {
		return refuseBusy(err)
	}
	end, err := p.page.get(ctx, rowOver, t.ID)
	if errors.Is(err, store.ErrStateGone) {
		return nil // it is not kept any longer
	}
	if err == nil {
		err = p.page.put(ctx, rowOver, t.Next, &record{Owner: c.owner, Ends: end.Until,
			Returned: true, Data: end.Data})
	}
	if errors.Is(err, errTaken) {
		return nil // the next question has an answer already
	}
	if err != nil {
		return refuseBusy(err)
	}
	if p.page.opts.Wake != nil { // tasks that wait for the next question
		_ = p.page.opts.Wake(ctx, t.Next)
	}
	return nil
}

// findPlace returns the id of the question that the chain has come to, as far as is known.
func (p *Questions) findPlace(ctx context.Context, c *chain) (string, error) {
	p.mu.Lock()
	id, known := p.last.Get(c.id)
	p.mu.Unlock()
	if known {
		return id, nil
	}
	// The rows of a question are kept for less than two periods after the one that it began in.
	now := p.period()
	for period := now; period > now-3; period-- {
		t, err := p.getTurn(ctx, rowStart, c.startID(period))
		if err == nil {
			return t.ID, nil
		}
		if !errors.Is(err, store.ErrStateGone) {
			return "", err
		}
	}
	t, err := p.keepPlace(ctx, c, rand.Text())
	return t.ID, err
}

func (p *Questions) period() int64 { return time.Now().UnixNano() / int64(p.page.opts.TTL) }

func (c *chain) startID(period int64) string { return c.id + "." + strconv.FormatInt(period, 10) }

// keepPlace writes where the chain has come to in this period, unless it is written.
func (p *Questions) keepPlace(ctx context.Context, c *chain, id string) (*turn, error) {
	period := p.period()
	return p.putTurn(ctx, c, rowStart, c.startID(period), &turn{ID: id},
		time.Unix(0, (period+3)*int64(p.page.opts.TTL)))
}

func (p *Questions) remember(c *chain, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.Put(c.id, id)
}

// endTurn decides who has the answer of a question, and which is next, once.
func (p *Questions) endTurn(ctx context.Context, c *chain, t *turn, until time.Time) (*turn,
	error) {
	t.Next = rand.Text()
	return p.putTurn(ctx, c, rowTaken, t.ID, t, until)
}

// putTurn stores a row and returns what it says, which may have been there before.
func (p *Questions) putTurn(ctx context.Context, c *chain, row, id string, t *turn,
	until time.Time) (*turn, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return &turn{}, fmt.Errorf("visit: %w", err)
	}
	err = p.page.put(ctx, row, id, &record{Owner: c.owner, Ends: until, Data: data})
	if errors.Is(err, errTaken) {
		return p.getTurn(ctx, row, id)
	}
	return t, err
}

func (p *Questions) getTurn(ctx context.Context, row, id string) (*turn, error) {
	t := &turn{}
	r, err := p.page.get(ctx, row, id)
	if err == nil {
		if err = json.Unmarshal(r.Data, t); err != nil {
			err = &storeError{err}
		}
	}
	return t, err
}
