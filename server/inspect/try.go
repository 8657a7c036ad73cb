package inspect

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/htmlform"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// Limits: trials of one browser and of all, the life of a trial, and the time to list tools.
	maxTrials, maxAllTrials = 8, 64
	trialLife, listTime     = 30 * time.Minute, 10 * time.Second
	maxShown                = 4 << 10  // bytes shown of a text
	maxTrialLine            = 16 << 20 // bytes of a message to a trial
	trialRounds             = 100      // rounds of one call: a visit that hangs is shown many times
)

type trials struct {
	mu   sync.Mutex
	list []*trial // the newest last
}

// A trial is one call of a tool, made once in each chosen era.
type trial struct {
	ID, Tool, Arguments string
	Began               time.Time
	owner               protocol.Principal // principal of the calls
	browser             string             // the token of the browser that made it
	sides               []*side
	running             atomic.Int32 // number of running sides
	end                 context.CancelFunc
}

// A side is a trial in one era.
type side struct {
	era  protocol.Era
	wire wireLog

	mu     sync.Mutex
	number int // of questions so far
	sideView
}

// A sideView is the page's view of a side.
type sideView struct {
	Index         int
	Era           string
	Done, IsError bool
	Text, Error   string // of the result
	Questions     []*asked
	Wire          []wireLine
}

// The type asked is an unanswered question.
type asked struct {
	Number             int
	Kind, Message, URL string
	Schema             json.RawMessage
	Given              url.Values
	Fault              string
	check              func(content json.RawMessage) error
	answer             chan answer
}

type answer struct {
	action  protocol.ElicitAction
	content json.RawMessage
	text    string
}

// A formView is a form for the template; Prefix keeps ids of several forms apart.
type formView struct {
	Prefix string
	Fields []htmlform.Field
}

// Form returns the form of the question.
func (a *asked) Form(prefix string) formView {
	fields, _ := readFields(a.Schema, a.Given)
	return formView{prefix, fields}
}

type tryView struct {
	Tools  []protocol.Tool
	Tool   *protocol.Tool
	Form   formView
	Rich   bool // the schema is no flat form
	Given  url.Values
	Fault  string
	Trials []*trial
	Trial  *trial
	Sides  []sideView
}

// serveTry serves the tab Try. It reports true if it has responded.
func (p *Page) serveTry(w http.ResponseWriter, r *http.Request, v *view) bool {
	caller, err := p.opts.Try(r)
	if err != nil || caller == nil {
		v.Missing = fmt.Sprintf("No tool can be called: %v", err)
		return false
	}
	v.Try = &tryView{}
	if r.Method == http.MethodPost {
		if location := p.actOnTrial(r, v, caller); location != "" {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusSeeOther)
			return true
		}
	}
	t := &p.trials
	t.mu.Lock()
	for _, trial := range slices.Backward(t.list) {
		if trial.owner == ownerOf(caller) {
			v.Try.Trials = append(v.Try.Trials, trial)
		}
	}
	t.mu.Unlock()
	if v.Try.Trial = p.findTrial(r.FormValue("trial"), caller); v.Try.Trial != nil {
		waits, asks := false, false
		for i, s := range v.Try.Trial.sides {
			seen := s.view(i)
			waits, asks = waits || !seen.Done, asks || len(seen.Questions) > 0
			v.Try.Sides = append(v.Try.Sides, seen)
		}
		if waits && !asks { // a page that reloads itself loses what was typed
			v.Refresh = 1
		}
		return false
	}
	p.fillTools(r, v.Try, caller)
	return false
}

// actOnTrial handles a form and returns the redirect, or "" to stay.
func (p *Page) actOnTrial(r *http.Request, page *view, caller *server.StreamOptions) string {
	v := page.Try
	t := p.findTrial(r.PostFormValue("trial"), caller)
	switch do := r.PostFormValue("do"); {
	case do == "start":
		p.fillTools(r, v, caller)
		if v.Tool == nil {
			return ""
		}
		arguments, err := contentOf(v.Tool.InputSchema, r.PostForm)
		if err != nil {
			v.Fault = errtext.Mark(err.Error(), maxShown)
			return ""
		}
		if t, err = p.startTrial(r, page.Token, v.Tool.Name, arguments, caller); err != nil {
			v.Fault = err.Error()
			return ""
		}
	case t == nil:
		return "try"
	case do == "end":
		t.end()
	default:
		t.answerQuestion(r)
	}
	return "try?trial=" + t.ID
}

// ownerOf returns the principal of a caller's calls.
func ownerOf(caller *server.StreamOptions) protocol.Principal {
	return cmp.Or(caller.Principal, protocol.LocalPrincipal())
}

// findTrial returns a trial of the caller, who cannot answer for others.
func (p *Page) findTrial(id string, caller *server.StreamOptions) *trial {
	p.trials.mu.Lock()
	defer p.trials.mu.Unlock()
	for _, t := range p.trials.list {
		if t.ID == id && t.owner == ownerOf(caller) {
			return t
		}
	}
	return nil
}

// fillTools lists the tools that the caller sees, and fills in the form of the chosen one.
func (p *Page) fillTools(r *http.Request, v *tryView, caller *server.StreamOptions) {
	ctx, cancel := context.WithTimeout(r.Context(), listTime)
	defer cancel()
	c, closeClient, err := p.connect(ctx, caller, &wireLog{}, &client.Options{})
	if err != nil {
		v.Fault = err.Error()
		return
	}
	defer closeClient()
	v.Tools = nil
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			v.Fault = errtext.Mark(err.Error(), maxShown)
			break
		}
		v.Tools = append(v.Tools, tool)
	}
	for i := range v.Tools {
		if v.Tools[i].Name == r.FormValue("tool") {
			flat := false
			v.Tool, v.Given = &v.Tools[i], r.PostForm
			v.Form.Fields, flat = readFields(v.Tool.InputSchema, v.Given)
			v.Rich = !flat
		}
	}
}

// connect returns a client of the server, over a pipe.
func (p *Page) connect(ctx context.Context, caller *server.StreamOptions, wire *wireLog,
	opts *client.Options) (*client.Client, func(), error) {
	near, far := net.Pipe()
	serving, stop := context.WithCancel(ctx)
	stream := client.NewStream(&tap{near, wire}, &tap{near, wire},
		&client.StreamOptions{MaxLineBytes: maxTrialLine})
	c, err := client.New(stream, opts)
	if err != nil {
		stop()
		return nil, nil, errors.Join(err, stream.Close(), far.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.server.ServeStream(serving, far, far, caller)
		_ = far.Close()
	}()
	return c, func() {
		_ = c.Close()
		stop()
		<-ended
	}, nil
}

// makeRoomLocked ends a browser's oldest trial at its limit, or forgets the oldest ended trial at
// the common limit. It reports false if there is no such trial.
func (p *trials) makeRoomLocked(browser string) bool {
	own := 0
	for _, t := range p.list {
		if t.browser == browser {
			own++
		}
	}
	if own < maxTrials && len(p.list) < maxAllTrials {
		return true
	}
	i := slices.IndexFunc(p.list, func(t *trial) bool {
		if own >= maxTrials {
			return t.browser == browser
		}
		return t.running.Load() == 0
	})
	if i < 0 {
		return false
	}
	p.list[i].end()
	p.list = slices.Delete(p.list, i, i+1)
	return true
}

// startTrial calls a tool in the eras selected in the form.
func (p *Page) startTrial(r *http.Request, browser, tool string, arguments json.RawMessage,
	caller *server.StreamOptions) (*trial, error) {
	ctx, end := context.WithTimeout(context.Background(), trialLife)
	t := &trial{ID: rand.Text(), Tool: tool, Arguments: errtext.Mark(string(arguments), maxShown),
		Began: time.Now(), owner: ownerOf(caller), browser: browser, end: end}
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		if slices.Contains(r.PostForm["era"], era.String()) {
			t.sides = append(t.sides, &side{era: era})
		}
	}
	if len(t.sides) == 0 {
		end()
		return nil, errors.New("choose at least one era")
	}
	p.trials.mu.Lock()
	defer p.trials.mu.Unlock()
	if !p.trials.makeRoomLocked(browser) {
		end()
		return nil, fmt.Errorf("%d calls of others are in flight on this page: try again when one "+
			"has ended", maxAllTrials)
	}
	p.trials.list = append(p.trials.list, t)
	t.running.Store(int32(len(t.sides)))
	for _, s := range t.sides {
		go func() {
			p.runSide(ctx, s, tool, arguments, caller)
			if t.running.Add(-1) == 0 {
				end()
			}
		}()
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-p.server.Done():
			end()
		}
	}()
	return t, nil
}

func (p *Page) runSide(ctx context.Context, s *side, tool string, arguments json.RawMessage,
	caller *server.StreamOptions) {
	c, closeClient, err := p.connect(ctx, caller, &s.wire, &client.Options{
		Info: protocol.Implementation{Name: "rondo-inspect", Version: "0"}, Era: s.era, Tasks: true,
		MaxRounds: trialRounds, Timeout: -1,
		ElicitForm: s.askForm, ElicitURL: s.askURL, CreateMessage: s.askModel,
		ListRoots: s.askRoots,
	})
	var result *protocol.CallToolResult
	if err == nil {
		result, err = c.CallTool(ctx, tool, arguments)
		closeClient()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Done, s.Questions = true, nil
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("the trial was ended on the page")
		}
		s.Error = errtext.Mark(err.Error(), maxShown)
		return
	}
	s.IsError = result.IsError
	for _, block := range result.Content { // other blocks are in the messages
		if text, ok := block.(*protocol.TextContent); ok {
			s.Text = errtext.Mark(s.Text+text.Text+"\n", maxShown)
		}
	}
}

func (s *side) view(index int) sideView {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.sideView
	v.Index, v.Era, v.Wire, v.Questions = index, s.era.String(), s.wire.list(), nil
	for _, a := range s.Questions {
		v.Questions = append(v.Questions, new(*a))
	}
	return v
}

// ask shows a question until it is answered or its call ends.
func (s *side) ask(ctx context.Context, a *asked) (answer, error) {
	a.answer = make(chan answer, 1)
	if n := len(a.Message); n > maxShown {
		a.Message = fmt.Sprintf("%s… (%d bytes in all)", errtext.Clip(a.Message, maxShown), n)
	}
	s.mu.Lock()
	s.number++
	a.Number = s.number
	s.Questions = append(s.Questions, a)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Questions = slices.DeleteFunc(s.Questions, func(b *asked) bool { return a == b })
	}()
	select {
	case got := <-a.answer:
		return got, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

func (s *side) askForm(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
	error) {
	got, err := s.ask(ctx, &asked{Kind: "form", Message: q.Message, Schema: q.Schema,
		check: q.Check})
	return &protocol.ElicitResult{Action: got.action, Content: got.content}, err
}

func (s *side) askURL(ctx context.Context, q *client.URLQuestion) (*protocol.ElicitResult, error) {
	got, err := s.ask(ctx, &asked{Kind: "visit", Message: q.Message, URL: q.URL})
	return &protocol.ElicitResult{Action: got.action}, err
}

func (s *side) askModel(ctx context.Context, q *client.SamplingQuestion) (
	*protocol.CreateMessageResult, error) {
	raw, err := json.Marshal(q.Request.Messages)
	if err != nil {
		return nil, err
	}
	got, err := s.ask(ctx, &asked{Kind: "message of a model",
		Message: q.Request.SystemPrompt + "\n" + string(raw)})
	if err != nil {
		return nil, err
	}
	if got.action != protocol.ActionAccept {
		return nil, protocol.Errorf(-1, "user rejected the request")
	}
	return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "a person",
		Content: []protocol.Content{&protocol.TextContent{Text: got.text}}}, nil
}

func (s *side) askRoots(ctx context.Context, _ *client.RootsQuestion) ([]protocol.Root, error) {
	got, err := s.ask(ctx, &asked{Kind: "roots",
		Message: "The server asks on which folders it may work: one file:// URI a line."})
	var roots []protocol.Root
	for uri := range strings.FieldsSeq(got.text) {
		roots = append(roots, protocol.Root{URI: uri})
	}
	return roots, err
}

// answerQuestion answers the question of a form, unless the input is invalid.
func (t *trial) answerQuestion(r *http.Request) {
	index, err := strconv.Atoi(r.PostFormValue("side"))
	if err != nil || index < 0 || index >= len(t.sides) {
		return
	}
	s := t.sides[index]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.Questions {
		if strconv.Itoa(a.Number) != r.PostFormValue("question") {
			continue
		}
		got := answer{action: protocol.ElicitAction(r.PostFormValue("action")),
			text: r.PostFormValue("text")}
		if got.action == protocol.ActionAccept && a.Schema != nil {
			got.content, err = contentOf(a.Schema, r.PostForm)
			if err == nil {
				err = a.check(got.content)
			}
			if err != nil {
				a.Given, a.Fault = r.PostForm, errtext.Mark(err.Error(), maxShown)
				return
			}
		}
		select {
		case a.answer <- got:
		default: // the question already has an answer
		}
	}
}
