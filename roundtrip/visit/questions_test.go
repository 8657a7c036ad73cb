package visit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
)

// A desk is two replicas of a question page behind one address; browsers use the second.
type desk struct {
	t     *testing.T
	url   string
	pages [2]*visit.Questions
}

func newDesk(t *testing.T, shared store.StateStore, opts visit.QuestionOptions) *desk {
	t.Helper()
	d := &desk{t: t}
	at, mux := listen(t)
	d.url = at + "/questions"
	d.pages = newQuestions(t, d.url, shared, opts)
	mux.Handle("/questions", d.pages[1])
	return d
}

func newQuestions(t *testing.T, url string, shared store.StateStore,
	opts visit.QuestionOptions) (pages [2]*visit.Questions) {
	t.Helper()
	opts.Visitor, opts.Store = cookieLogin, shared
	for i := range pages {
		opts.Keys = servertest.NewKeyring("k")
		var err error
		if pages[i], err = visit.NewQuestions(url, &opts); err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

const yesForm = `{"type":"object","properties":{"yes":{"type":"boolean"}},"required":["yes"]}`

func questionOf(user string) *roundtrip.PageQuestion {
	return &roundtrip.PageQuestion{Principal: principal(user), Method: "tools/call",
		Target: "deploy", Message: "Deploy it?", Form: json.RawMessage(yesForm)}
}

func (d *desk) ask(q *roundtrip.PageQuestion) *roundtrip.PageReply {
	d.t.Helper()
	reply, err := d.pages[0].OpenQuestion(d.t.Context(), q)
	noError(d.t, err)
	return reply
}

func (d *desk) find(replica int, user, id string) *roundtrip.PageReply {
	d.t.Helper()
	reply, err := d.pages[replica].FindQuestion(d.t.Context(), principal(user), id)
	noError(d.t, err)
	return reply
}

// fill returns an open question's form. Its only field has any name of the tests' questions.
func (b *browser) fill(link, action, entered string) url.Values {
	b.t.Helper()
	form := b.open(link)
	form.Set("action", action)
	form.Set("field.yes", entered)
	form.Set("field.target", entered)
	return form
}

func (b *browser) answer(link, action, entered string) {
	b.t.Helper()
	if status, text := b.send("POST", link, b.fill(link, action, entered), nil); status != 200 ||
		!strings.Contains(text, "Thank you") {
		b.t.Errorf("%d %s", status, text)
	}
}

const answeredNo = `{"action":"accept","content":{"yes":false}}`

// TestAQuestionIsAnsweredOnAnyReplica, once, and found there by its user alone.
func TestAQuestionIsAnsweredOnAnyReplica(t *testing.T) {
	woken := make(chan string, 9)
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{Options: visit.Options{
		Wake: func(_ context.Context, key string) error { woken <- key; return nil }}})
	ann := newBrowser(t, d.url, "ann")
	for action, want := range map[string]string{"accept": answeredNo,
		"decline": `{"action":"decline"}`} {
		asked, other := d.ask(questionOf("ann")), d.ask(questionOf("ann"))
		if asked.Answer != nil || asked.Link == "" || asked.ID == "" || asked.Link == other.Link {
			t.Fatalf("got %+v, %+v", asked, other)
		}
		if got := d.find(1, "ann", asked.ID); got.Link != asked.Link || got.Answer != nil ||
			got.Message != "Deploy it?" || string(got.Form) != yesForm {
			t.Errorf("got %+v", got)
		}
		ann.answer(asked.Link, action, "false")
		if key := <-woken; key != asked.ID {
			t.Errorf("woken with %q, want %q", key, asked.ID)
		}
		for replica := range d.pages {
			if got := d.find(replica, "ann", asked.ID); string(got.Answer) != want ||
				got.Given.IsZero() {
				t.Errorf("got %s, want %s", got.Answer, want)
			}
		}
		if got := d.find(0, "ann", other.ID); got.Answer != nil {
			t.Errorf("the other question: %+v", got)
		}
		if got := d.find(0, "bob", asked.ID); got != nil {
			t.Errorf("another user: %+v", got)
		}
	}
	if got := d.find(0, "ann", "unknown"); got != nil {
		t.Errorf("an unknown question: %+v", got)
	}
	_, err := d.pages[0].OpenQuestion(t.Context(), &roundtrip.PageQuestion{})
	if !isProtocol(err, "authenticate") {
		t.Errorf("anonymous: %v", err)
	}
	if _, err := d.pages[0].KeepCall(t.Context(), &roundtrip.PageCall{}); !isProtocol(err,
		"authenticate") {
		t.Errorf("anonymous: %v", err)
	}
}

func callOf(user string, digest byte, state string) *roundtrip.PageCall {
	return &roundtrip.PageCall{Principal: principal(user), Digest: [32]byte{digest},
		State: []byte(state), Until: time.Now().Add(24 * time.Hour)}
}

func (d *desk) keep(replica int, c *roundtrip.PageCall) {
	d.t.Helper()
	kept, err := d.pages[replica].KeepCall(d.t.Context(), c)
	if noError(d.t, err); !kept {
		d.t.Error("a call is not kept")
	}
}

// take takes the first call whose state contains want.
func (d *desk) take(replica int, c *roundtrip.PageCall, want string) string {
	d.t.Helper()
	state, err := d.pages[replica].TakeCall(d.t.Context(), c,
		func(state []byte) bool { return strings.Contains(string(state), want) })
	noError(d.t, err)
	return string(state)
}

// TestAKeptCallIsTakenOnce, the oldest first, by its user and with its digest.
func TestAKeptCallIsTakenOnce(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	for i, state := range []string{"a1", "b1", "a2"} {
		d.keep(i%2, callOf("ann", 1, state))
	}
	for _, other := range []*roundtrip.PageCall{callOf("bob", 1, ""), callOf("ann", 2, "")} {
		if got := d.take(0, other, ""); got != "" {
			t.Errorf("got %q of another call", got)
		}
	}
	for i, want := range []string{"b1", "a1", "a2", ""} {
		if got := d.take(i%2, callOf("ann", 1, ""), want[:min(1, len(want))]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	first := callOf("ann", 1, "c")
	first.First = true
	var kept atomic.Int64
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if ok, err := d.pages[i%2].KeepCall(t.Context(), first); err == nil && ok {
				kept.Add(1)
			}
		})
	}
	group.Wait()
	if n := kept.Load(); n != 1 {
		t.Errorf("%d of sixteen calls at once are kept", n)
	}
	taken := make([]string, 16)
	for i := range taken {
		group.Go(func() { taken[i] = d.take(i%2, callOf("ann", 1, ""), "") })
	}
	group.Wait()
	if got := strings.Join(taken, ""); got != "c" {
		t.Errorf("sixteen calls at once took %q", got)
	}
}

func isProtocol(err error, want string) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && strings.Contains(e.Message, want)
}

// TestQuestionsAreAnsweredByTheirForm only, by its user and browser.
func TestQuestionsAreAnsweredByTheirForm(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	asked := d.ask(questionOf("ann"))
	link := asked.Link
	ann, bob := newBrowser(t, d.url, "ann"), newBrowser(t, d.url, "bob")
	good := ann.fill(link, "accept", "true")
	with := func(name, value string) url.Values {
		changed := url.Values{}
		for n, values := range good {
			changed[n] = values
		}
		changed[name] = []string{value}
		return changed
	}
	forged := with(visit.TokenField, good.Get(visit.TokenField)[1:])
	foreign := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	for _, tc := range []struct {
		name, method string
		from         *browser
		fields       url.Values
		change       func(*http.Request)
		status       int
	}{
		{"another person", "GET", bob, nil, nil, 404},
		{"another person's form", "POST", bob, good, nil, 404},
		{"another browser", "POST", newBrowser(t, d.url, "ann"), good, nil, 403},
		{"a forged token", "POST", ann, forged, nil, 403},
		{"no token", "POST", ann, with(visit.TokenField, ""), nil, 403},
		{"a foreign origin", "POST", ann, good, foreign, 403},
		{"a prefetch", "GET", ann, nil, nil, 200},
		{"a prefetch with an answer", "GET", ann, good, nil, 200},
		{"a preview", "HEAD", ann, nil, nil, 200},
		{"no button", "POST", ann, with("action", ""), nil, 422},
		{"another action", "POST", ann, with("action", "cancel"), nil, 422},
		{"nothing entered", "POST", ann, with("field.yes", ""), nil, 422},
		{"another value", "POST", ann, with("field.yes", "maybe"), nil, 422},
		{"JSON", "POST", ann, with("field.yes", `{"yes":true}`), nil, 422},
	} {
		status, text := tc.from.send(tc.method, link, tc.fields, tc.change)
		if status != tc.status || status == 422 && !strings.Contains(text, `role="alert"`) {
			t.Errorf("%s: %d, want %d: %s", tc.name, status, tc.status, text)
		}
		if got := d.find(0, "ann", asked.ID); got.Answer != nil {
			t.Fatalf("%s: the question is answered: %+v", tc.name, got)
		}
	}
	got := ann.sendEight(link, func(i int) url.Values { // double clicks, and two tabs
		return with("field.yes", fmt.Sprint(i%2 == 0))
	})
	if got[200] != 1 || got[410] != 7 {
		t.Errorf("eight clicks: %v", got)
	}
	if status, _ := ann.send("POST", link, good, nil); status != http.StatusGone {
		t.Errorf("sent again: %d", status)
	}
	if got := d.find(0, "ann", asked.ID); got.Answer == nil {
		t.Errorf("got %+v", got)
	}
}

// TestInvalidAnswersAreCorrected: the input is shown again with its errors.
func TestInvalidAnswersAreCorrected(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{Server: "Deployer"})
	q := questionOf("ann")
	q.Form = json.RawMessage(`{"type":"object","properties":{
		"n":{"type":"integer","title":"Count","maximum":5,"default":2},
		"t":{"type":"string","title":"Why","description":"In a word.","minLength":1},
		"c":{"type":"string","enum":["a","b"]}},"required":["n","t"]}`)
	asked := d.ask(q)
	link := asked.Link
	ann := newBrowser(t, d.url, "ann")
	_, page := ann.send("GET", link, nil, nil)
	fields, _ := testkit.ReadHTMLForm(page)
	want(t, page, `<html lang="en">`, `action="?visit=`, // without the fragment of an error's link
		"<title>Question from Deployer</title>", "<h1>", "Deploy it?", "deploy",
		`<label for="f1"><span dir="auto">Why</span> <span class="required">(required)`,
		`aria-describedby="f1-help"`, `id="f1-help" dir="auto">In a word. (at least 1 character)`,
		`type="number" value="2"`, ` required`, "formnovalidate", "<legend>")
	fields.Set("action", "accept")
	fields.Set("field.n", "9")
	fields.Set("field.c", "b")
	status, page := ann.send("POST", link, fields, nil)
	want(t, page, "<title>Error: ", `<a href="#f0">Count must be at most 5.</a>`,
		`<a href="#f1">Why is required.</a>`,
		`aria-invalid="true" aria-describedby="f1-help f1-fault"`,
		`id="f0-fault">Count must be at most 5.`, `value="9"`, `value="b" checked`)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("the status is %d", status)
	}
	fields.Set("field.t", strings.Repeat("x", 40<<10))
	fields.Set("field.n", "5")
	_, page = ann.send("POST", link, fields, nil)
	want(t, page, "too long", "32768")
	fields.Set("field.t", "x")
	if status, page = ann.send("POST", link, fields, nil); status != http.StatusOK {
		t.Errorf("%d %s", status, page)
	}
	if got := d.find(0, "ann", asked.ID); string(got.Answer) !=
		`{"action":"accept","content":{"n":5,"t":"x","c":"b"}}` {
		t.Errorf("got %s", got.Answer)
	}
}

func want(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("%s is missing in %s", text, page)
		}
	}
}

// TestHostileTextsStayText everywhere, and never in the link.
func TestHostileTextsStayText(t *testing.T) {
	const hostile = "\"'><script>alert(1)</script>\u202e\x1b]0;x\u0007{{.}}</style><img src=x>"
	encoded, err := json.Marshal(hostile)
	noError(t, err)
	raw := string(encoded)
	q := questionOf("ann")
	q.Method, q.Target, q.Message = hostile, hostile, hostile
	q.Arguments = json.RawMessage(`{"a":` + raw + `,"b":"` + strings.Repeat("y", 5000) + `"}`)
	q.Form = json.RawMessage(`{"type":"object","properties":{` + raw + `:{"type":"string","title":` +
		raw + `,"description":` + raw + `,"default":` + raw + `},"c":{"type":"string","oneOf":[
		{"const":` + raw + `,"title":` + raw + `}]},"m":{"type":"array","items":{"type":"string",
		"enum":[` + raw + `]}},"n":{"type":"integer","title":` + raw + `}}}`)
	for _, shown := range []bool{false, true} {
		d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{ShowArguments: shown,
			Server: hostile})
		link := d.ask(q).Link
		if u, err := url.Parse(link); err != nil || len(u.Query()) != 1 ||
			len(u.Query().Get("visit")) != 26 || !strings.HasPrefix(link, d.url+"?visit=") {
			t.Errorf("the link is %s", link)
		}
		ann := newBrowser(t, d.url, "ann")
		_, page := ann.send("GET", link, nil, nil)
		fields, _ := testkit.ReadHTMLForm(page)
		if got := fields.Get("field." + hostile); got != "" {
			t.Errorf("a default that reads otherwise than it is sent: %q", got)
		}
		fields.Set("action", "accept")
		fields.Set("field.n", hostile)
		_, again := ann.send("POST", link, fields, nil)
		want(t, again, `role="alert"`)
		for _, text := range []string{page, again} {
			if strings.Contains(text, "<script") || strings.Contains(text, "<img") ||
				strings.Count(text, "</style") != 1 {
				t.Errorf("markup of strangers: %s", text)
			}
			want(t, text, `\u202e\x1b]0;x\a`)
			for part := range strings.SplitSeq(text, "<") { // all but values of inputs
				if _, seen, _ := strings.Cut(part, ">"); strings.ContainsAny(seen, "\u202e\x1b\a") {
					t.Errorf("control characters are shown: %q", part)
				}
			}
			if strings.Contains(text, "yyy") != shown || strings.Contains(text,
				strings.Repeat("y", 4097)) {
				t.Error("the arguments are shown otherwise than they should")
			}
		}
	}
}

// TestThePageOfAnAuthor: an author's page replaces the built-in page.
func TestThePageOfAnAuthor(t *testing.T) {
	page := template.Must(template.New("").Parse(`<title>Ours</title><style nonce="{{.Nonce}}">` +
		`</style>{{if .Done}}Bye: {{.Done}}{{else}}{{.Server}} {{.Message}}{{.Form}}{{end}}`))
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{Template: page})
	link := d.ask(questionOf("ann")).Link
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", link, nil)
	r.AddCookie(&http.Cookie{Name: "who", Value: "ann"})
	d.pages[0].ServeHTTP(w, r)
	policy := w.Header().Get("Content-Security-Policy")
	_, nonce, _ := strings.Cut(policy, "style-src 'nonce-")
	want(t, policy, "default-src 'none'; ", "form-action 'self'")
	want(t, w.Body.String(), "Ours", "127.0.0.1:", "Deploy it?", `name="visit_token"`,
		`nonce="`+strings.TrimSuffix(nonce, "'")+`"`)
	ann := newBrowser(t, d.url, "ann")
	_, text := ann.send("POST", link, ann.fill(link, "decline", ""), nil)
	want(t, text, "Bye: decline")
	for want, opts := range map[string]*visit.QuestionOptions{
		"does not show the form": {Template: template.Must(template.New("").Parse("Hello"))},
		"Template: template:":    {Template: template.Must(template.New("").Parse("{{.Unknown}}"))},
		"TTL":                    {Options: visit.Options{TTL: -1}},
	} {
		opts.Visitor = cookieLogin
		_, err := visit.NewQuestions("https://a.example/q", opts)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := visit.NewQuestions("https://a.example/q", nil); err == nil {
		t.Error("a page without a Visitor")
	}
}

func TestQuestionsThatCannotBeShown(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	long, nested := questionOf("ann"), questionOf("ann")
	long.Message = strings.Repeat("x", 50<<10)
	nested.Form = json.RawMessage(`{"type":"object","properties":{"x":{"type":"object"}}}`)
	for want, q := range map[string]*roundtrip.PageQuestion{"limit of 40960": long,
		"flat": nested} {
		if reply, err := d.pages[0].OpenQuestion(t.Context(), q); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %+v, %v, want %s", reply, err, want)
		}
	}
}

// TestOpenQuestionsMeetTheShareOfTheirPerson only.
func TestOpenQuestionsMeetTheShareOfTheirPerson(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	d.ask(questionOf("bob"))
	refused := 0
	for range 10_000 {
		_, err := d.pages[0].OpenQuestion(t.Context(), questionOf("ann"))
		if isProtocol(err, "too many") {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 || refused == 10_000 {
		t.Errorf("%d were refused", refused)
	}
	d.ask(questionOf("bob"))
}

// A failing store fails once, before or after one operation.
type failing struct {
	store.StateStore
	left  int
	after bool
}

func (f *failing) fail() bool { f.left--; return f.left == -1 }

func (f *failing) Put(ctx context.Context, id, owner string, state []byte, until time.Time) error {
	if f.fail() {
		if f.after {
			_ = f.StateStore.Put(ctx, id, owner, state, until)
		}
		f.left = 0 // the next one, too
		return errors.New("marker-of-the-reason")
	}
	return f.StateStore.Put(ctx, id, owner, state, until)
}

func (f *failing) Get(ctx context.Context, id string) ([]byte, error) {
	if f.fail() {
		return nil, errors.New("marker-of-the-reason")
	}
	return f.StateStore.Get(ctx, id)
}

// TestNoLinkIsShownThatDoesNotWork, and no call is taken twice, whenever the store fails.
func TestNoLinkIsShownThatDoesNotWork(t *testing.T) {
	for n := range 60 {
		f := &failing{StateStore: store.NewMemoryStateStore(0), left: n / 2, after: n%2 == 1}
		d := newDesk(t, f, visit.QuestionOptions{})
		page, ann := d.pages[n%2], newBrowser(t, d.url, "ann")
		retry := func(do func() error) (failed bool) {
			for err := do(); err != nil; err = do() {
				failed = true
				if !isProtocol(err, "cannot reach") || strings.Contains(err.Error(), "marker") {
					t.Fatal(err)
				}
			}
			return failed
		}
		var reply *roundtrip.PageReply
		retry(func() (err error) {
			reply, err = page.OpenQuestion(t.Context(), questionOf("ann"))
			return err
		})
		keeps := 0 // whenever a call is kept, it has another state
		retry(func() error {
			keeps++
			_, err := page.KeepCall(t.Context(), callOf("ann", 1, fmt.Sprint("state", keeps)))
			return err
		})
		link, id := reply.Link, reply.ID
		for status := 0; status != 200 && status != 410; {
			status, _ = ann.send("GET", link, nil, nil)
		}
		for status := 0; status != 200 && status != 410; {
			form := url.Values{}
			if status, page := ann.send("GET", link, nil, nil); status == 200 {
				form, _ = testkit.ReadHTMLForm(page)
			}
			form.Set("action", "accept")
			form.Set("field.yes", "false")
			status, _ = ann.send("POST", link, form, nil)
		}
		retry(func() (err error) {
			reply, err = page.FindQuestion(t.Context(), principal("ann"), id)
			return err
		})
		if string(reply.Answer) != answeredNo {
			t.Errorf("%d: got %+v", n, reply)
		}
		for _, want := range []string{fmt.Sprint("state", keeps), ""} {
			var state []byte
			failed := retry(func() (err error) {
				state, err = page.TakeCall(t.Context(), callOf("ann", 1, ""),
					func(state []byte) bool { return string(state) == fmt.Sprint("state", keeps) })
				return err
			})
			if string(state) != want && !(failed && f.after) { // taken, and not acknowledged
				t.Errorf("%d: got %q, want %q", n, state, want)
			}
		}
	}
}

// A tomb keeps expired ids until deletion, like a database.
type tomb struct {
	store.StateStore
	ids map[string]time.Time
}

func (b *tomb) Put(ctx context.Context, id, owner string, state []byte, until time.Time) error {
	if end, taken := b.ids[id]; taken && time.Now().Before(end.Add(10*time.Minute)) {
		return errors.New("the id is taken")
	}
	b.ids[id] = until
	return b.StateStore.Put(ctx, id, owner, state, until)
}

// TestKeptCalls plays calls and clocks at random: each is found in its time, and taken once.
func TestKeptCalls(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { playCalls(t, rand.New(rand.NewPCG(seed, seed)), seed) })
	}
}

func playCalls(t *testing.T, random *rand.Rand, seed uint64) {
	const ttl = time.Hour
	var shared store.StateStore = store.NewMemoryStateStore(0)
	switch seed % 3 {
	case 1:
		shared = &keeper{StateStore: shared}
	case 2:
		shared = &tomb{shared, map[string]time.Time{}}
	}
	pages := newQuestions(t, "https://a.example/q", shared,
		visit.QuestionOptions{Options: visit.Options{TTL: ttl}})
	d := &desk{t: t, pages: pages}
	type call struct {
		state string
		until time.Time
	}
	var kept []call // oldest first
	for step := range 100 {
		time.Sleep(time.Duration(random.Int64N(int64(ttl) / 3)))
		if random.IntN(16) == 0 {
			time.Sleep(ttl)
		}
		kept = slices.DeleteFunc(kept, func(c call) bool { return !time.Now().Before(c.until) })
		if random.IntN(2) == 0 {
			c := callOf("ann", 1, fmt.Sprint(random.IntN(2), " ", step))
			c.Until = time.Now().Add(time.Duration(1 + random.Int64N(int64(3*ttl))))
			d.keep(random.IntN(2), c)
			until := time.Now().Add(2 * ttl)
			if c.Until.Before(until) {
				until = c.Until
			}
			kept = append(kept, call{string(c.State), until})
			continue
		}
		wanted, want := []string{"0 ", "1 ", "none"}[random.IntN(3)], ""
		for i, c := range kept {
			if strings.HasPrefix(c.state, wanted) {
				want = c.state
				kept = slices.Delete(kept, i, i+1)
				break
			}
		}
		if got := d.take(random.IntN(2), callOf("ann", 1, ""), wanted); got != want {
			t.Fatalf("seed %d, step %d: got %q, want %q of %v", seed, step, got, want, kept)
		}
	}
}
