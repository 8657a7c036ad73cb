package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Survey calls tools and compares what they make of answers. It needs no flows: forms are filled
// from their schemas.
type Survey struct {
	Target *Target
	// Timeout bounds one call, questions included.
	Timeout time.Duration
}

// The ways in which an answer can be none, in the order of Verdict.Checks.
const (
	CheckDecline = iota
	CheckCancel
	CheckForged  // an answer that is not valid
	CheckMissing // no answer, an error, or a client that cannot be asked
	CheckState   // valid answers with a state that was changed, or with none
	checkCount
)

// A Verdict is what a tool does in an era.
type Verdict struct {
	Tool string
	Era  protocol.Era
	// Asks are the questions of a call in which everything is accepted.
	Asks []string
	// Accepted is the text of that call's result, and Complete reports that it is one: neither an
	// error nor questions without end.
	Accepted string
	Complete bool
	// Lost are the questions that were asked again after they had been accepted.
	Lost   []string
	Checks [checkCount]Check
}

// A Check is what came of one way in which an answer can be none.
type Check struct {
	// Tried is how many calls were made.
	Tried int
	// Open names the calls that gave the result of a call in which everything is accepted.
	Open []string
}

// ListTools returns the tools of the server in an era. It calls none. An error means that the
// server does not serve the era, or cannot be reached.
func (s *Survey) ListTools(era protocol.Era) (tools []protocol.Tool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	peer, err := s.Target.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // a client that could not be made leaves it open
	c, err := client.New(peer, listingOptions(era))
	if err != nil {
		return nil, err
	}
	defer c.Close() // the connection is of no more use
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// listingOptions are those of a client that can be asked everything, and is not: servers may hide
// tools that ask from other clients.
func listingOptions(era protocol.Era) *client.Options {
	unasked := errors.New("nobody answers while tools are listed")
	return &client.Options{Era: era, Sampling: protocol.SamplingCapability{Tools: true},
		Info: protocol.Implementation{Name: "roundtriptest", Version: "1.0.0"},
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return nil, unasked
		},
		ElicitURL: func(context.Context, *client.URLQuestion) (*protocol.ElicitResult, error) {
			return nil, unasked
		},
		CreateMessage: func(context.Context,
			*client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return nil, unasked
		},
		ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return nil, unasked
		},
	}
}

// Judge calls a tool in an era, again and again: each call has effects.
func (s *Survey) Judge(era protocol.Era, tool string, arguments json.RawMessage) (*Verdict, error) {
	c := &comparison{survey: s, era: era, request: Request{Method: protocol.MethodCallTool,
		Target: tool, Arguments: arguments}}
	v := &Verdict{Tool: tool, Era: era}
	first, err := c.playScript(c.acceptAll())
	if err != nil {
		return nil, err
	}
	v.Accepted, v.Complete, v.Lost = first.out.String(), first.out.isComplete(), first.lost
	for _, a := range first.asked {
		v.Asks = append(v.Asks, a.description)
	}
	if first.asksAgain {
		v.Accepted, v.Complete = "asks again and again", false
	}
	if len(first.asked) == 0 || !v.Complete {
		return v, nil
	}
	second, err := c.playScript(c.acceptAll())
	if err != nil {
		return nil, err
	}
	if err := c.setReference(first, second); err != nil {
		return nil, err
	}
	c.runChecks(v)
	return v, nil
}

// A comparison holds what a tool gives when everything is accepted against what it gives else.
type comparison struct {
	survey  *Survey
	era     protocol.Era
	request Request

	// first is a call in which everything was accepted. again has the questions of a second one,
	// in the order of the first. texts are the results of both.
	first *take
	again []askedQuestion
	texts [2]string
}

func (c *comparison) playScript(sc *script) (*take, error) {
	timeout := c.survey.Timeout
	if sc.with.result != nil {
		timeout = min(timeout, answerTimeout) // servers drop what they cannot read
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return c.survey.Target.playScript(ctx, c.era, sc)
}

func (c *comparison) acceptAll() *script {
	return &script{request: c.request, caps: allCapabilities(), deviates: -1}
}

func (c *comparison) setReference(first, second *take) error {
	c.first, c.again = first, alignQuestions(first.asked, second.asked)
	for i, t := range []*take{first, second} {
		if !t.out.isComplete() {
			return fmt.Errorf("a second call, in which everything was accepted again, ends with %s",
				t.out)
		}
		var err error
		if c.texts[i], err = c.textOf(t); err != nil {
			return err
		}
	}
	return nil
}

// alignQuestions returns the questions of a second call in the order of the first: a session may
// push those of a round in any order. One that has other words each time is the next of its kind.
func alignQuestions(first, second []askedQuestion) []askedQuestion {
	left := slices.Clone(second)
	again := slices.Clone(first) // where the second call did not ask
	take := func(i int, same func(a askedQuestion) bool) bool {
		at := slices.IndexFunc(left, same)
		if at < 0 {
			return false
		}
		again[i] = left[at]
		left = slices.Delete(left, at, at+1)
		return true
	}
	var reworded []int
	for i, a := range first {
		if !take(i, func(b askedQuestion) bool {
			return a.key == b.key && (a.key != "" || a.description == b.description)
		}) {
			reworded = append(reworded, i)
		}
	}
	for _, i := range reworded {
		take(i, func(b askedQuestion) bool {
			return reflect.TypeOf(first[i].question) == reflect.TypeOf(b.question)
		})
	}
	return again
}

// textOf returns a result as text, without what the answers brought: a result that repeats an
// answer is no other result when there is none to repeat.
func (c *comparison) textOf(t *take) (string, error) {
	data, err := encodeComparable(c.request.Method, t.out.result)
	if err != nil {
		return "", err
	}
	text := string(data)
	for _, a := range c.first.asked {
		for _, value := range filledTexts(a.answer.Result) {
			text = strings.ReplaceAll(text, value, "")
		}
	}
	return text, nil
}

// filledTexts returns the texts of an answer that no result has by accident.
func filledTexts(answer json.RawMessage) (texts []string) {
	var values map[string]json.RawMessage
	if json.Unmarshal(contentOf(answer), &values) == nil {
		for _, value := range values {
			var text string
			if json.Unmarshal(value, &text) == nil && len(text) >= minFilledText {
				texts = append(texts, text)
			}
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) }) // "x" may be in "xy"
	return append(texts, filling)
}

// minFilledText is the length of the shortest text that is recognized in a result: shorter ones
// may be part of any word.
const minFilledText = 4

// runChecks tries every way at each question.
func (c *comparison) runChecks(v *Verdict) {
	for i, a := range c.first.asked {
		for _, d := range deviations(a) {
			sc := c.acceptAll()
			sc.deviates, sc.with = i, d.reply
			sc.expected, sc.again = c.first.asked, c.again
			c.tryScript(&v.Checks[d.check], d.what+" to "+quoteQuestion(a), sc)
		}
	}
	unable := c.acceptAll()
	unable.caps, unable.endsAfter = &protocol.ClientCapabilities{}, 1
	c.tryScript(&v.Checks[CheckMissing], "a client that cannot be asked", unable)
	if c.era == protocol.Modern {
		c.checkState(&v.Checks[CheckState])
	}
}

// checkState sends valid answers with a state that is not the one that came with the questions.
func (c *comparison) checkState(check *Check) {
	last := c.first.legs - 1
	sealed := false
	forged := func(what string, change func(*leg)) {
		sc := c.acceptAll()
		sc.endsAfter = last + 1
		sc.forge = func(number int, l *leg) {
			if number == last {
				if text, ok := l.state.Text(); ok && text != "" {
					sealed = true
				}
				change(l)
			}
		}
		c.tryScript(check, what, sc)
	}
	forged("answers without the state that came with the questions", func(l *leg) {
		l.state = protocol.RequestState{}
	})
	if sealed {
		forged("answers with a changed state", func(l *leg) {
			text, _ := l.state.Text()
			l.state = protocol.StateText(changeLetter(text))
		})
	}
	cold := c.acceptAll()
	cold.endsAfter = 1
	cold.forge = func(number int, l *leg) {
		if number > 0 {
			return
		}
		for _, a := range c.first.asked {
			l.responses = append(l.responses,
				protocol.KeyedResponse{Key: a.key, Result: a.answer.Result})
		}
	}
	c.tryScript(check, "answers to what was never asked", cold)
}

// changeLetter changes the letter or digit in the middle of a state.
func changeLetter(state string) string {
	b := []byte(state)
	i := len(b) / 2
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

// tryScript plays a script that must not get the result of a call in which everything is
// accepted. A call that is not answered got nothing.
func (c *comparison) tryScript(check *Check, what string, sc *script) {
	check.Tried++
	took, err := c.playScript(sc)
	if err != nil || took.asksAgain || !took.out.isComplete() {
		return
	}
	if text, err := c.textOf(took); err == nil && sameButFresh(text, c.texts[0], c.texts[1]) {
		check.Open = append(check.Open, what)
	}
}

// A deviation is a reply that is no acceptance.
type deviation struct {
	check int
	what  string
	reply reply
}

// deviations returns the replies that fit a question.
func deviations(a askedQuestion) []deviation {
	found := []deviation{{CheckMissing, "no answer", reply{none: true}}}
	forge := func(answers ...string) {
		for _, answer := range answers {
			found = append(found, deviation{CheckForged, "the answer " + answer,
				reply{result: json.RawMessage(answer)}})
		}
	}
	forge(`null`, `{}`, `"accept"`)
	var content json.RawMessage
	switch q := a.question.(type) {
	case *protocol.ElicitForm:
		content = contentOf(a.answer.Result)
		for _, wrong := range wrongContents(q.Schema, content) {
			forge(`{"action":"accept","content":` + wrong + `}`)
		}
	case *protocol.ElicitURL:
		content = json.RawMessage(`{}`)
	default:
		return found
	}
	forge(`{"action":"accepted","content":`+string(content)+`}`,
		`{"result":{"action":"accept","content":`+string(content)+`}}`)
	return append(found,
		deviation{CheckDecline, "a decline",
			reply{result: json.RawMessage(`{"action":"decline"}`), thinks: true}},
		deviation{CheckDecline, "a decline at once",
			reply{result: json.RawMessage(`{"action":"decline"}`)}},
		deviation{CheckCancel, "a cancel",
			reply{result: json.RawMessage(`{"action":"cancel"}`), thinks: true}})
}

// wrongContents returns contents that do not fit the form: without the required fields, and with
// an object where a value belongs.
func wrongContents(schema, content json.RawMessage) (wrong []string) {
	var form struct{ Required []string }
	if json.Unmarshal(schema, &form) == nil && len(form.Required) > 0 {
		wrong = append(wrong, `{}`)
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(content, &values) != nil || len(values) == 0 {
		return wrong
	}
	for name := range values {
		values[name] = json.RawMessage(`{"evil":true}`)
	}
	data, err := json.Marshal(values)
	if err == nil {
		wrong = append(wrong, string(data))
	}
	return wrong
}

// quoteQuestion names a question on one line.
func quoteQuestion(a askedQuestion) string {
	text := strings.Join(strings.Fields(a.description), " ")
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
