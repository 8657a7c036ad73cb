package consent_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/consent"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
)

var noError = testkit.NoError

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	message = "Delete which project?"
	secret  = "project-x"
)

type choice struct {
	Project string `json:"project" minLength:"3"`
}

var which = roundtrip.MustQuestion[choice]("which")

var handlers = map[string]func(context.Context) (protocol.CallToolOutcome, error){
	"flow": func(ctx context.Context) (protocol.CallToolOutcome, error) {
		_, err := which.Ask(ctx, message)
		return server.Text("deleted"), err
	},
	"guard": func(ctx context.Context) (protocol.CallToolOutcome, error) {
		switch reply := which.Answer(ctx); reply.Outcome {
		case roundtrip.Missing, roundtrip.Invalid:
			return roundtrip.InputRequired(which.Elicit(message)), nil
		case roundtrip.Accepted:
			return server.Text("deleted"), nil
		default:
			return server.Text("kept"), nil
		}
	},
}

type archive struct {
	*testing.T
	public  ed25519.PublicKey
	private ed25519.PrivateKey
	records [][]byte
	page    *servertest.Page
	keys    *keys.Keyring
	events  strings.Builder // logged
}

func newArchive(t *testing.T) *archive {
	public, private, err := ed25519.GenerateKey(nil)
	noError(t, err)
	return &archive{T: t, public: public, private: private}
}

// Observe logs events without care.
func (a *archive) Observe(_ context.Context, e event.Event) {
	log := slog.New(slog.NewJSONHandler(&a.events, nil))
	log.Info("event", "it", e)
	fmt.Fprintf(&a.events, "%+v %#v\n", e, e)
}

// call calls the tool in a session over a pipe. Each answer is to one question.
func (a *archive) call(era protocol.Era, style string, opts consent.Options, answers ...string) {
	a.Helper()
	opts.Key, opts.Sink = a.private, func(_ context.Context, record []byte) {
		a.records = append(a.records, record)
	}
	recorder, err := consent.NewRecorder(&opts)
	noError(a, err)
	o := &server.Options{Info: servertest.Info(), Observer: event.Observers(a, recorder),
		Roundtrip: roundtrip.Options{MinHumanTime: -1}}
	if a.page != nil {
		o.Roundtrip.Page, o.Roundtrip.Sealer = a.page, a.keys
	}
	srv, err := server.New(o)
	noError(a, err)
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "delete"}, func(ctx context.Context, _ *server.ToolCall,
		_ struct{}) (protocol.CallToolOutcome, error) {
		return handlers[style](ctx)
	})
	r, w := servertest.ServeLines(a, func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = srv.ServeStream(ctx, in.(io.ReadCloser), out.(io.WriteCloser), nil)
	})
	options := &client.Options{Info: protocol.Implementation{Name: "desk", Version: "1"}, Era: era}
	next := func() (*protocol.ElicitResult, error) {
		result, err := protocol.DecodeElicitResult([]byte(answers[0]))
		answers = answers[1:]
		return result, err
	}
	switch {
	case answers == nil:
	case era == protocol.Legacy: // its client does not validate answers
		options.Manual = &protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}}
		options.RelayElicit = func(context.Context, json.RawMessage) (*protocol.ElicitResult,
			error) {
			return next()
		}
	default:
		options.ElicitForm = func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return next()
		}
	}
	c, err := client.New(client.NewStream(r, w, nil), options)
	noError(a, err)
	defer c.Close()
	if _, err := c.CallTool(a.Context(), "delete", struct{}{}); err != nil {
		a.Log(err)
	}
}

func (a *archive) verify(records ...[]byte) ([]consent.Consent, error) {
	return consent.Verify([]ed25519.PublicKey{a.public}, records...)
}

const (
	entered  = `{"project":"` + secret + `"}`
	accepted = `{"action":"accept","content":` + entered + `}`
	declined = `{"action":"decline"}`
	tooShort = `{"action":"accept","content":{"project":"p"}}`
)

func inEachWay(t *testing.T, test func(a *archive, era protocol.Era, style string)) {
	for name, era := range map[string]protocol.Era{"modern": protocol.Modern,
		"legacy": protocol.Legacy} {
		for style := range handlers {
			t.Run(name+"/"+style, func(t *testing.T) { test(newArchive(t), era, style) })
		}
	}
}

// TestConsentsAreProven reads questions and answers back from records in any order.
func TestConsentsAreProven(t *testing.T) {
	inEachWay(t, func(a *archive, era protocol.Era, style string) {
		a.call(era, style, consent.Options{}, accepted)
		a.call(era, style, consent.Options{}, declined)
		slices.Reverse(a.records)
		a.records = append(a.records, a.records...) // stored twice
		list, err := a.verify(a.records...)
		if err != nil || len(list) != 2 {
			a.Fatalf("%v, %v", list, err)
		}
		for i, want := range []event.Decision{event.Declined, event.Accepted} {
			q, answer := list[i].Question, list[i].Answer
			if q.Message != message || !strings.Contains(string(q.Form), "minLength") ||
				q.Target != "delete" || q.Principal != protocol.LocalPrincipal().Key() ||
				q.Digest != answer.Digest || q.Way != words.WayForm || q.Time.After(answer.Time) {
				a.Errorf("asked %+v", q)
			}
			if answer.Decision != want || answer.Key != "which" || answer.Way != words.WayForm ||
				answer.Principal != q.Principal || list[i].Invalid {
				a.Errorf("answered %+v, want %s", answer, want)
			}
			salt := answer.Salt(a.private)
			if answer.Matches(salt, []byte(entered+" ")) != (want == event.Accepted) ||
				answer.Matches(salt, []byte(`{"project":"other"}`)) ||
				answer.Matches(nil, []byte(entered)) {
				a.Error("the digest is of another answer")
			}
		}
		// Neither a question nor an answer alone is consent.
		var asked, rest [][]byte
		for _, record := range a.records {
			if r := a.read(record); r.Type == consent.Asked {
				asked = append(asked, record)
				if r.Client != "desk" {
					a.Errorf("client %q", r.Client)
				}
			} else {
				rest = append(rest, record)
			}
		}
		if list, err := a.verify(asked...); err != nil || len(list) != 0 {
			a.Errorf("questions alone: %v, %v", list, err)
		}
		_, err = a.verify(rest...)
		if inPlace := era == protocol.Legacy && style == "flow"; inPlace != (err == nil) {
			a.Errorf("answers alone: %v", err)
		}
	})
}

// read decodes a record's payload like another program.
func (a *archive) read(record []byte) (r consent.Record) {
	a.Helper()
	var jws struct{ Protected, Payload, Signature string }
	err := json.Unmarshal(record, &jws)
	signature, _ := base64.RawURLEncoding.DecodeString(jws.Signature)
	if !ed25519.Verify(a.public, []byte(jws.Protected+"."+jws.Payload), signature) {
		a.Error("not signed as RFC 7515 says")
	}
	payload, err2 := base64.RawURLEncoding.DecodeString(jws.Payload)
	err3 := json.Unmarshal(payload, &r)
	if err != nil || err2 != nil || err3 != nil {
		a.Fatal(err, err2, err3)
	}
	return r
}

// TestInvalidAnswersAreMarked: an answer hidden from the handler is no consent.
func TestInvalidAnswersAreMarked(t *testing.T) {
	for style := range handlers {
		a := newArchive(t)
		a.call(protocol.Legacy, style, consent.Options{}, tooShort, accepted)
		list, err := a.verify(a.records...)
		if err != nil || len(list) != 2 || !list[0].Invalid || list[1].Invalid ||
			list[1].Question.Message == message { // with the reason in front
			t.Errorf("%s: %+v, %v", style, list, err)
		}
	}
}

// TestVisitsAreRecorded, without secrets in their URL. Questions that no person sees are not
// recorded. Of two answers in one round the later one is invalid.
func TestVisitsAreRecorded(t *testing.T) {
	a := newArchive(t)
	recorder, err := consent.NewRecorder(&consent.Options{Key: a.private,
		Sink: func(_ context.Context, record []byte) { a.records = append(a.records, record) }})
	noError(t, err)
	visit := &protocol.ElicitURL{Message: message, URL: "https://pay.example/" + secret}
	recorder.Observe(t.Context(), event.InputRequested{Questions: []event.AskedQuestion{
		{Key: "say", Kind: protocol.KindCreateMessage, Request: &protocol.CreateMessage{}},
		{Key: "pay", Kind: protocol.KindElicitURL, Request: visit}}})
	if len(a.records) != 1 {
		t.Fatalf("%d records, want 1", len(a.records))
	}
	if r := a.read(a.records[0]); r.Key != "pay" || r.Message != message || r.Way != "" ||
		r.Origin != "https://pay.example" {
		t.Errorf("got %+v", r)
	}
	for round := range 3 { // the first twice, as when a call becomes a task
		recorder.Observe(t.Context(), event.Answered{Where: event.Where{Round: round / 2},
			Key: "pay", Kind: protocol.KindElicitURL, Decision: event.Accepted, Asked: visit})
	}
	recorder.Observe(t.Context(), event.AnswerInvalid{Key: "pay"})
	for range 2 {
		list, err := a.verify(a.records...)
		if err != nil || len(list) != 3 || !list[1].Invalid || list[0].Invalid || list[2].Invalid {
			t.Errorf("got %+v, %v", list, err)
		}
		slices.Reverse(a.records)
	}
}

// TestAnswersStayOut: answers are in no printed event, and in records only if the host wants them.
func TestAnswersStayOut(t *testing.T) {
	inEachWay(t, func(a *archive, era protocol.Era, style string) {
		for _, include := range []bool{false, true} {
			a.records = nil
			a.call(era, style, consent.Options{IncludeAnswers: include}, accepted)
			found := false
			for _, record := range a.records {
				text, _ := json.Marshal(a.read(record))
				found = found || strings.Contains(string(text), secret)
			}
			if found != include {
				a.Errorf("IncludeAnswers %t: in the records: %t", include, found)
			}
		}
		if logged := a.events.String(); strings.Contains(logged, secret) ||
			strings.Contains(logged, base64.StdEncoding.EncodeToString([]byte(accepted))) ||
			!strings.Contains(logged, "Answered") {
			a.Errorf("events have the answer: %s", logged)
		}
	})
}

func TestWrongRecordsAreNamed(t *testing.T) {
	a := newArchive(t)
	for range 2 {
		a.call(protocol.Modern, "flow", consent.Options{}, accepted)
	}
	var jws map[string]string
	noError(t, json.Unmarshal(a.records[3], &jws))
	change := func(member, value string) []byte {
		changed, _ := json.Marshal(map[string]string{"protected": jws["protected"],
			"payload": jws["payload"], "signature": jws["signature"], member: value})
		return changed
	}
	payload, _ := base64.RawURLEncoding.DecodeString(jws["payload"])
	declines := strings.Replace(string(payload), "accepted", "declined", 1)
	for name, record := range map[string][]byte{
		"changed":    change("payload", base64.RawURLEncoding.EncodeToString([]byte(declines))),
		"unsigned":   change("signature", ""),
		"no header":  change("protected", "eyJhbGciOiJub25lIn0"),
		"no JSON":    []byte("{"),
		"no record":  []byte("null"),
		"other text": append(slices.Clone(a.records[3]), '}'),
	} {
		list, err := a.verify(a.records[0], a.records[1], a.records[2], record)
		if err == nil || !strings.Contains(err.Error(), "records[3]") || list != nil {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	other := newArchive(t)
	if _, err := other.verify(a.records...); err == nil ||
		!strings.Contains(err.Error(), "records[0]") {
		t.Errorf("another key: %v", err)
	}
	if _, err := consent.Verify(nil, a.records...); err == nil {
		t.Error("no key verifies")
	}
	both := []ed25519.PublicKey{other.public, a.public}
	if list, err := consent.Verify(both, a.records...); err != nil || len(list) != 2 {
		t.Errorf("a key of several: %v, %v", list, err)
	}
	if _, err := a.verify(a.records[0], a.records[3]); err == nil ||
		!strings.Contains(err.Error(), "records[1]: its question") {
		t.Errorf("another flow: %v", err)
	}
}

func TestChainsShowWhatIsMissing(t *testing.T) {
	a := newArchive(t)
	for range 2 { // two recorders
		a.call(protocol.Legacy, "flow", consent.Options{Chain: true}, tooShort, tooShort, accepted)
	}
	if list, err := a.verify(a.records...); err != nil || len(list) != 6 {
		t.Fatalf("%d, %v", len(list), err)
	}
	for i := range a.records {
		rest := slices.Delete(slices.Clone(a.records), i, i+1)
		last := i == len(a.records)-1 || i == len(a.records)/2-1
		if _, err := a.verify(rest...); (err == nil) != last {
			t.Errorf("without record %d of %d: %v", i, len(a.records), err)
		}
	}
}

// TestAnswersOfThePageAreProven: the second call gets the answer to the first's question.
func TestAnswersOfThePageAreProven(t *testing.T) {
	inEachWay(t, func(a *archive, era protocol.Era, style string) {
		a.page, a.keys = &servertest.Page{}, servertest.NewKeyring("k")
		a.call(era, style, consent.Options{})
		a.page.Answer("https://page.example/?visit=1", func(string) string { return entered })
		answered := time.Now()
		a.call(era, style, consent.Options{})
		list, err := a.verify(a.records...)
		if err != nil || len(list) != 1 || list[0].Question.Message != message ||
			list[0].Answer.Way != words.WayText || list[0].Answer.Time.After(answered) ||
			list[0].Answer.Decision != event.Accepted ||
			!list[0].Answer.Matches(list[0].Answer.Salt(a.private), []byte(entered)) {
			a.Errorf("%+v, %v", list, err)
		}
		if r := a.read(a.records[0]); r.Type != consent.Asked || r.Way != words.WayText {
			a.Errorf("the first call: %+v", r)
		}
	})
}

func TestOptionsAreRequired(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	for _, o := range []*consent.Options{nil, {Key: key}, {Key: key[:31],
		Sink: func(context.Context, []byte) {}}} {
		if _, err := consent.NewRecorder(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
