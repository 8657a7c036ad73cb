package visit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
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

func questionOf(taker string) *roundtrip.PageQuestion {
	return &roundtrip.PageQuestion{Binding: [32]byte{1}, Taker: taker, Principal: principal("ann"),
		Method: "tools/call", Target: "deploy", Message: "Deploy it?",
		Form: json.RawMessage(yesForm)}
}

func (d *desk) ask(replica int, q *roundtrip.PageQuestion) *roundtrip.PageReply {
	d.t.Helper()
	reply, err := d.pages[replica].AskOnPage(d.t.Context(), q)
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

// TestAnAnswerIsTakenOnce, on any replica.
func TestAnAnswerIsTakenOnce(t *testing.T) {
	woken := make(chan string, 9)
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{Options: visit.Options{
		Wake: func(_ context.Context, key string) error { woken <- key; return nil }}})
	ann := newBrowser(t, d.url, "ann")
	first := d.ask(0, questionOf("a"))
	if first.Answer != nil || first.Link == "" || first.Key == "" {
		t.Fatalf("got %+v", first)
	}
	for i := range 4 {
		if again := d.ask(i%2, questionOf("ab"[i/2:][:1])); again.Link != first.Link {
			t.Errorf("asked again: %+v", again)
		}
	}
	ann.answer(first.Link, "accept", "false")
	if key := <-woken; key != first.Key {
		t.Errorf("woken with %q, want %q", key, first.Key)
	}
	for i := range 4 {
		if got := d.ask(i%2, questionOf("b")); string(got.Answer) != answeredNo {
			t.Errorf("got %s, want %s", got.Answer, answeredNo)
		}
	}
	second := d.ask(0, questionOf("a"))
	if second.Answer != nil || second.Link == first.Link || second.Link == "" {
		t.Fatalf("got %+v", second)
	}
	noError(t, d.pages[1].ReturnAnswer(t.Context(), questionOf("b")))
	if key := <-woken; key != second.Key {
		t.Errorf("woken with %q, want %q", key, second.Key)
	}
	if got := d.ask(1, questionOf("c")); string(got.Answer) != answeredNo {
		t.Errorf("what was given back: %+v", got)
	}
	if status, _ := ann.send("GET", second.Link, nil, nil); status != http.StatusGone {
		t.Errorf("the link that it answered: %d", status)
	}
	third := d.ask(0, questionOf("a"))
	if got := d.ask(0, questionOf("b")); got.Answer != nil || got.Link != third.Link {
		t.Errorf("who gave it back got %+v", got)
	}
	ann.answer(third.Link, "decline", "")
	if got := d.ask(1, questionOf("b")); string(got.Answer) != `{"action":"decline"}` {
		t.Errorf("got %s", got.Answer)
	}
	if err := d.pages[0].ReturnAnswer(t.Context(), questionOf("z")); err == nil {
		t.Error("who has no answer gives it back")
	}
}

// TestAQuestionIsForOneBinding, and one user.
func TestAQuestionIsForOneBinding(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	first := d.ask(0, questionOf("a"))
	newBrowser(t, d.url, "ann").answer(first.Link, "accept", "true")
	other, person := questionOf("a"), questionOf("a")
	other.Binding[31], person.Principal = 1, principal("bob")
	for _, q := range []*roundtrip.PageQuestion{other, person} {
		if got := d.ask(0, q); got.Answer != nil || got.Link == first.Link {
			t.Errorf("got %+v", got)
		}
	}
	nobody, untaken := questionOf("a"), questionOf("")
	nobody.Principal = protocol.Principal{}
	if _, err := d.pages[0].AskOnPage(t.Context(), nobody); !isProtocol(err, "authenticate") {
		t.Errorf("anonymous: %v", err)
	}
	if _, err := d.pages[0].AskOnPage(t.Context(), untaken); err == nil {
		t.Error("a question without a taker")
	}
	if err := d.pages[0].ReturnAnswer(t.Context(), nobody); !isProtocol(err, "authenticate") {
		t.Errorf("anonymous: %v", err)
	}
}

func isProtocol(err error, want string) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && strings.Contains(e.Message, want)
}

// TestQuestionsAreAnsweredByTheirForm only, by its user and browser.
func TestQuestionsAreAnsweredByTheirForm(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	link := d.ask(0, questionOf("a")).Link
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
		if got := d.ask(0, questionOf("a")); got.Link != link {
			t.Fatalf("%s: the question is over: %+v", tc.name, got)
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
	if got := d.ask(0, questionOf("a")); got.Answer == nil {
		t.Errorf("got %+v", got)
	}
}

// TestOneOfManyTakersGetsTheAnswer; the others get one new question.
func TestOneOfManyTakersGetsTheAnswer(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	ann := newBrowser(t, d.url, "ann")
	for round := range 5 {
		link := ""
		for step := range 2 {
			var group sync.WaitGroup
			replies := make([]*roundtrip.PageReply, 16)
			for i := range replies {
				group.Go(func() {
					replies[i] = d.ask(i%2, questionOf(fmt.Sprint(round, " ", i)))
				})
			}
			group.Wait()
			links, answers := map[string]int{}, 0
			for _, r := range replies {
				if r.Answer != nil {
					answers++
				} else {
					links[r.Link]++
					link = r.Link
				}
			}
			if len(links) != 1 || answers != step {
				t.Fatalf("%v, %d answers", links, answers)
			}
			if step == 0 {
				ann.answer(link, "accept", "true")
			}
		}
		ann.answer(link, "accept", "true")
		d.ask(0, questionOf(fmt.Sprint("last ", round)))
	}
}

// TestInvalidAnswersAreCorrected: the input is shown again with its errors.
func TestInvalidAnswersAreCorrected(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{Server: "Deployer"})
	q := questionOf("a")
	q.Form = json.RawMessage(`{"type":"object","properties":{
		"n":{"type":"integer","title":"Count","maximum":5,"default":2},
		"t":{"type":"string","title":"Why","description":"In a word.","minLength":1},
		"c":{"type":"string","enum":["a","b"]}},"required":["n","t"]}`)
	link := d.ask(0, q).Link
	ann := newBrowser(t, d.url, "ann")
	_, page := ann.send("GET", link, nil, nil)
	fields, _ := testkit.ReadHTMLForm(page)
	want(t, page, `<html lang="en">`, "<title>Question from Deployer</title>", "<h1>", "Deploy it?",
		"deploy", `<label for="f1"><span dir="auto">Why</span> <span class="required">(required)`,
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
	if got := d.ask(0, q); string(got.Answer) !=
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
	q := questionOf("a")
	q.Method, q.Target, q.Message = hostile, hostile, hostile
	q.Arguments = json.RawMessage(`{"a":` + raw + `,"b":"` + strings.Repeat("y", 5000) + `"}`)
	q.Form = json.RawMessage(`{"type":"object","properties":{` + raw + `:{"type":"string","title":` +
		raw + `,"description":` + raw + `,"default":` + raw + `},"c":{"type":"string","oneOf":[
		{"const":` + raw + `,"title":` + raw + `}]},"m":{"type":"array","items":{"type":"string",
		"enum":[` + raw + `]}},"n":{"type":"integer","title":` + raw + `}}}`)
	for _, shown := range []bool{false, true} {
		d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{ShowArguments: shown,
			Server: hostile})
		link := d.ask(0, q).Link
		if u, err := url.Parse(link); err != nil || len(u.Query()) != 1 ||
			len(u.Query().Get("visit")) != 26 || !strings.HasPrefix(link, d.url+"?visit=") {
			t.Errorf("the link is %s", link)
		}
		ann := newBrowser(t, d.url, "ann")
		_, page := ann.send("GET", link, nil, nil)
		fields, _ := testkit.ReadHTMLForm(page)
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
	link := d.ask(0, questionOf("a")).Link
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
	long, nested := questionOf("a"), questionOf("a")
	long.Message = strings.Repeat("x", 50<<10)
	nested.Form = json.RawMessage(`{"type":"object","properties":{"x":{"type":"object"}}}`)
	for want, q := range map[string]*roundtrip.PageQuestion{"limit of 40960": long,
		"flat": nested} {
		if reply, err := d.pages[0].AskOnPage(t.Context(), q); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %+v, %v, want %s", reply, err, want)
		}
	}
}

// TestOpenQuestionsMeetTheShareOfTheirPerson only.
func TestOpenQuestionsMeetTheShareOfTheirPerson(t *testing.T) {
	d := newDesk(t, store.NewMemoryStateStore(0), visit.QuestionOptions{})
	other := questionOf("a")
	other.Principal = principal("bob")
	d.ask(0, other)
	refused := 0
	for i := range 10_000 {
		q := questionOf("a")
		q.Binding[0], q.Binding[1] = byte(i), byte(i>>8)
		if _, err := d.pages[0].AskOnPage(t.Context(), q); isProtocol(err, "too many") {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 || refused == 10_000 {
		t.Errorf("%d were refused", refused)
	}
	other.Binding[0] = 2
	d.ask(1, other)
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

// TestNoLinkIsShownThatDoesNotWork, and no answer is lost or taken twice, whenever the store fails.
func TestNoLinkIsShownThatDoesNotWork(t *testing.T) {
	for n := range 60 {
		f := &failing{StateStore: store.NewMemoryStateStore(0), left: n / 2, after: n%2 == 1}
		d := newDesk(t, f, visit.QuestionOptions{})
		ann := newBrowser(t, d.url, "ann")
		retry := func(taker string) (reply *roundtrip.PageReply) {
			for {
				reply, err := d.pages[n%2].AskOnPage(t.Context(), questionOf(taker))
				if err == nil {
					return reply
				}
				if !isProtocol(err, "cannot reach") || strings.Contains(err.Error(), "marker") {
					t.Fatal(err)
				}
			}
		}
		link := retry("a").Link
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
		if got := retry("b"); string(got.Answer) != answeredNo {
			t.Errorf("%d: got %+v", n, got)
		}
		if got := retry("b"); string(got.Answer) != answeredNo {
			t.Errorf("%d: again %+v", n, got)
		}
		if got := retry("a"); got.Answer != nil {
			t.Errorf("%d: the answer was taken twice", n)
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

// TestChainsOfQuestions plays users, takers and clocks at random: one question is open, for its
// time, and an answer goes to one taker, in its time.
func TestChainsOfQuestions(t *testing.T) {
	for seed := range uint64(61) {
		if seed == 60 {
			seed = 845 // an answer that was given back meets one that nobody took in time
		}
		synctest.Test(t, func(t *testing.T) {
			playChain(t, rand.New(rand.NewPCG(seed, seed)), seed)
		})
	}
}

func playChain(t *testing.T, random *rand.Rand, seed uint64) {
	const ttl, at = time.Hour, "https://a.example/q"
	var shared store.StateStore = store.NewMemoryStateStore(0)
	switch seed % 3 {
	case 1:
		shared = &keeper{StateStore: shared}
	case 2:
		shared = &tomb{shared, map[string]time.Time{}}
	}
	pages := newQuestions(t, at, shared, visit.QuestionOptions{Options: visit.Options{TTL: ttl}})
	type answer struct {
		taker   string
		content string
		until   time.Time
	}
	var link string       // of the open question
	var opened time.Time  // its start
	var answers []*answer // not taken yet
	number, takers, took := 0, 0, map[string]bool{}
	form := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	for step := range 60 {
		time.Sleep(time.Duration(random.Int64N(int64(ttl) / 3)))
		replica := random.IntN(2)
		if random.IntN(8) == 0 {
			time.Sleep(ttl)
		}
		if link != "" && !time.Now().Before(opened.Add(ttl)) {
			link = ""
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, step %d: "+format, append([]any{seed, step}, args...)...)
		}
		if random.IntN(3) == 0 && link != "" { // the user answers
			number++
			browse := func(method string, form url.Values, cookies []*http.Cookie) *http.Response {
				r := httptest.NewRequest(method, link, strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Origin", "https://a.example")
				for _, c := range append(cookies, &http.Cookie{Name: "who", Value: "ann"}) {
					r.AddCookie(c)
				}
				w := httptest.NewRecorder()
				pages[random.IntN(2)].ServeHTTP(w, r)
				return w.Result()
			}
			shown := browse("GET", nil, nil)
			page, err := io.ReadAll(shown.Body)
			if err != nil || shown.StatusCode != 200 {
				fail("the link: %d %s", shown.StatusCode, page)
			}
			fields, _ := testkit.ReadHTMLForm(string(page))
			fields.Set("action", "accept")
			fields.Set("field.n", fmt.Sprint(number))
			if got := browse("POST", fields, shown.Cookies()); got.StatusCode != 200 {
				fail("answering: %d", got.StatusCode)
			}
			answers = append(answers, &answer{"", fmt.Sprintf(
				`{"action":"accept","content":{"n":%d}}`, number), time.Now().Add(ttl)})
			link = ""
			continue
		}
		q := questionOf(fmt.Sprint("t", takers-random.IntN(3)))
		if q.Form = form; random.IntN(2) == 0 {
			takers++
			q.Taker = fmt.Sprint("t", takers)
		}
		var held, free *answer // the taker's, and an available one, for at least a minute
		for _, a := range answers {
			if time.Now().Add(time.Minute).Before(a.until) {
				if a.taker == q.Taker {
					held = a
				} else if a.taker == "" {
					free = a
				}
			}
		}
		if held == nil && took[q.Taker] { // flows do not repeat a question
			continue
		}
		if held != nil && free == nil && link == "" && random.IntN(3) == 0 {
			held.taker = ""
			if err := pages[replica].ReturnAnswer(t.Context(), q); err != nil {
				if seed%3 != 2 {
					fail("giving back: %v", err)
				}
				held.until = time.Time{} // lost to an old row in its place
			}
			continue
		}
		reply, err := pages[replica].AskOnPage(t.Context(), q)
		switch {
		case err != nil:
			fail("%v", err)
		case reply.Answer == nil && (held != nil || free != nil):
			fail("%s is asked although there is %+v %+v", q.Taker, held, free)
		case reply.Answer == nil && link != "" && reply.Link != link:
			fail("%s is asked at %s, and %s is open", q.Taker, reply.Link, link)
		case reply.Answer == nil:
			if link == "" {
				link, opened = reply.Link, time.Now()
			}
			continue
		}
		took[q.Taker] = true
		for _, a := range answers {
			if a.content == string(reply.Answer) && a.taker != "" && a.taker != q.Taker {
				fail("%s gets %s, which %s has", q.Taker, reply.Answer, a.taker)
			}
			if a.content == string(reply.Answer) && !a.until.IsZero() &&
				time.Now().After(a.until.Add(time.Minute)) { // for which some stores keep more
				fail("%s gets %s, which was kept until %s", q.Taker, reply.Answer, a.until)
			}
			if a.content == string(reply.Answer) {
				a.taker = q.Taker
			}
		}
	}
}
