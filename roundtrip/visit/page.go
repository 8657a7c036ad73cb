package visit

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const (
	TokenField   = "visit_token" // the form field for [Visit].Token
	maxFormBytes = 256 << 10     // of a request; answers are much shorter
	cookieName   = "rondo_visit"
)

// ErrOver means that a visit is over: finished in another tab, or refused at the client.
var ErrOver = errors.New("visit: the visit is over")

// Options configure pages, and may be shared.
type Options struct {
	// Visitor identifies the browser's user by the host's login, such as a cookie, and returns the
	// principal of that user's calls. For an unknown user it responds, as with a login page, and
	// returns false. Calls may overlap. Required; [LocalVisitor] is for servers over stdio.
	Visitor func(http.ResponseWriter, *http.Request) (protocol.Principal, bool)
	// Store keeps visits for all replicas; the server's StateStore will do. Nil means in memory.
	Store store.StateStore
	// Keys, shared by replicas, seal visits with derived keys. Required with a Store, else random.
	Keys *keys.Keyring
	// TTL is how long a visit may take from the first request, and how long its answer is kept
	// afterwards. Set it longer for tasks, and if much is asked after the visit. 0 means 1 hour.
	TTL time.Duration
	// Wake wakes tasks that wait for key: Wake of server/tasks. If nil, tasks poll each minute.
	Wake func(ctx context.Context, key string) error
	// Observer, usually the server's, gets an [event.VisitServed] for each browser. May be nil.
	Observer event.Observer
}

// A Page connects [Page.Ask] of handlers with [Page.ServeHTTP] of browsers. Q goes to the page and
// A comes back, each as JSON of at most about 39 KiB. All methods may be called concurrently.
type Page[Q, A any] struct {
	url   *url.URL
	opts  Options
	ring  *keys.Keyring
	serve func(http.ResponseWriter, *http.Request, *Visit[Q, A])
}

// NewPage returns the page at its public address, https or local http, without query and fragment.
// Only replicas of the page may share the address.
//
// serve shows the page and handles its form: GET, HEAD and POST of the user who was asked. The
// preset headers forbid scripts, styles and frames; serve may change them. Calls may overlap.
func NewPage[Q, A any](address string, opts *Options,
	serve func(http.ResponseWriter, *http.Request, *Visit[Q, A])) (*Page[Q, A], error) {
	u, err := urlrule.Check(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("visit: %w", err)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("visit: the address of a page has neither query nor fragment")
	case opts == nil || opts.Visitor == nil:
		return nil, errors.New("visit: Options.Visitor is required: it identifies users")
	case serve == nil:
		return nil, errors.New("visit: the function that serves the page is nil")
	case opts.TTL < 0:
		return nil, errors.New("visit: Options.TTL must not be negative")
	case opts.Store != nil && (opts.Keys == nil || opts.Keys.Ephemeral()):
		return nil, errors.New("visit: Options.Keys: a store needs keys that outlive the process; " +
			"set Keys, for example with keys.KeyringFromEnv")
	}
	p := &Page[Q, A]{url: u, opts: *opts, serve: serve}
	p.opts.TTL = cmp.Or(p.opts.TTL, time.Hour)
	if p.opts.Observer == nil {
		p.opts.Observer = event.Observers()
	}
	if p.opts.Store == nil {
		p.opts.Store = store.NewMemoryStateStore(0)
	}
	if p.opts.Keys == nil {
		p.opts.Keys = keys.EphemeralKeyring()
	}
	p.ring = p.opts.Keys.Derive("rondo visits 1")
	return p, nil
}

// A Visit is an open visit of the user who was asked.
type Visit[Q, A any] struct {
	About   Q // from the handler
	Visitor protocol.Principal
	// Token must be sent as the form's [TokenField]. It is valid in this browser during the visit.
	Token string

	page *Page[Q, A]
	id   string
	row  *record
	post bool
	addr string
}

// Finish ends the visit: Ask returns answer, on any replica. Call it for a POST with valid input.
// One call succeeds, others get [ErrOver]: effects belong in the handler behind Ask, or after
// Finish. After any other error the visit is probably still open.
func (v *Visit[Q, A]) Finish(ctx context.Context, answer A) error {
	if !v.post {
		return errors.New("visit: only a POST finishes a visit")
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	err = v.page.put(ctx, rowOver, v.id, &record{Owner: v.row.Owner, Ends: v.row.Ends,
		Given: time.Now(), Data: data})
	if errors.Is(err, errTaken) {
		return ErrOver
	}
	if err == nil {
		v.reportServed(ctx, "finished")
	}
	if err == nil && v.page.opts.Wake != nil {
		_ = v.page.opts.Wake(ctx, v.id) // otherwise the task polls within a minute
	}
	return err
}

func (v *Visit[Q, A]) reportServed(ctx context.Context, how string) {
	e := event.VisitServed{How: how, Principal: v.Visitor, RemoteAddr: v.addr}
	if v.id != "" {
		digest := sha256.Sum256([]byte("rondo visit 1\x00" + v.id)) // the id is secret
		e.Visit = hex.EncodeToString(digest[:4])
	}
	v.page.opts.Observer.Observe(ctx, e)
}

func (p *Page[Q, A]) linkTo(id string) string {
	return p.url.String() + "?" + url.Values{"visit": {id}}.Encode()
}

// A refusal is shown in place of the author's page; zero: the page is shown.
type refusal struct {
	status    int    // of HTTP
	how, text string // how is the event's
}

var (
	refuseMethod = refusal{http.StatusMethodNotAllowed, "method", "This page is opened by a link."}
	refuseRemote = refusal{http.StatusForbidden, "", "This page is for browsers on this machine."}
	refuseHost   = refusal{http.StatusForbidden, "host", "Open the link with the address that it " +
		"was shown with."}
	refuseOrigin = refusal{http.StatusForbidden, "origin", "This was not sent by the page itself. " +
		"Open the link once more and use its form."}
	refuseStranger = refusal{http.StatusNotFound, "stranger", "This link is not for you, or not " +
		"any more. If it came to you from another person, leave it: what you enter would be " +
		"theirs. If it is yours, log in as the one who was asked, or call again what led to it."}
	refuseOver = refusal{http.StatusGone, "over", "This link is over: it was finished already, or " +
		"refused where it was shown. You can close this page."}
	refuseLate = refusal{http.StatusGone, "late", "The time of this link is over. Nothing was " +
		"changed; call again what led to it."}
	refuseSize  = refusal{http.StatusRequestEntityTooLarge, "size", "That is too much for this page."}
	refuseToken = refusal{http.StatusForbidden, "token", "This form is of another browser or " +
		"login, or cookies are off. Nothing was changed; open the link once more."}
	refuseStore = refusal{http.StatusServiceUnavailable, "store", "The server is busy. Nothing " +
		"was changed; try again in a moment."}
)

// ServeHTTP serves the page, or a short one if it refuses the browser.
func (p *Page[Q, A]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin") // "no-referrer" would suppress Origin
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy",
		"default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	v := &Visit[Q, A]{page: p, id: r.URL.Query().Get("visit"), post: r.Method == http.MethodPost,
		addr: r.RemoteAddr}
	refused := p.checkRequest(r)
	if refused.status == 0 {
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		var known bool
		if v.Visitor, known = p.opts.Visitor(w, r); !known {
			return
		}
		if refused = p.open(w, r, v); refused.status == 0 {
			if !v.post {
				v.reportServed(r.Context(), "shown")
			}
			p.serve(w, r, v)
			return
		}
	}
	if refused == refuseMethod {
		h.Set("Allow", "GET, HEAD, POST")
	}
	v.reportServed(r.Context(), refused.how)
	refused.writePage(w)
}

// writePage shows the refusal as a page, which phones show in a readable size.
func (r refusal) writePage(w http.ResponseWriter) {
	head, rest, _ := strings.Cut(r.text, ". ")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(r.status)
	_, _ = fmt.Fprintf(w, refusalHTML, head, rest)
}

// checkRequest refuses requests that no browser on the page sends.
func (p *Page[Q, A]) checkRequest(r *http.Request) refusal {
	switch {
	case p.url.Scheme == "http" && r.Host != p.url.Host: // another name of this machine
		return refuseHost
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
	case r.Method != http.MethodPost:
		return refuseMethod
	case r.Header.Get("Origin") != p.url.Scheme+"://"+p.url.Host:
		return refuseOrigin
	}
	return refusal{}
}

// open reads the request's visit if it is open and belongs to its visitor.
func (p *Page[Q, A]) open(w http.ResponseWriter, r *http.Request, v *Visit[Q, A]) refusal {
	var err error
	v.row, err = p.get(r.Context(), rowAsked, v.id)
	switch {
	case errors.Is(err, store.ErrStateGone):
		return refuseStranger
	case err != nil:
		return refuseStore
	case v.Visitor.Anonymous() || quota.OwnerDigest(v.Visitor) != v.row.Owner:
		return refuseStranger
	}
	switch _, err = p.get(r.Context(), rowOver, v.id); {
	case err == nil:
		return refuseOver
	case !errors.Is(err, store.ErrStateGone):
		return refuseStore
	case !time.Now().Before(v.row.Ends):
		return refuseLate
	case json.Unmarshal(v.row.Data, &v.About) != nil:
		return refuseStranger // of another version of the page
	}
	return p.checkToken(w, r, v)
}

// checkToken checks a POST's token, or makes a form's token. The cookie binds it to one browser.
func (p *Page[Q, A]) checkToken(w http.ResponseWriter, r *http.Request, v *Visit[Q, A]) refusal {
	var browser string
	if cookie, err := r.Cookie(cookieName); err == nil && len(cookie.Value) == len(rand.Text()) {
		browser = cookie.Value
	}
	bound := func() string { return p.placeOf("token", v.id) + v.row.Owner + browser }
	if v.post {
		err := errors.Join(r.ParseForm(), r.ParseMultipartForm(maxFormBytes))
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			return refuseSize
		}
		v.Token = r.PostFormValue(TokenField)
		plain, err := p.ring.Open(r.Context(), v.Token)
		if err != nil || browser == "" || string(plain) != bound() {
			return refuseToken
		}
		return refusal{}
	}
	if browser == "" {
		browser = rand.Text()
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: browser, HttpOnly: true,
			Path: p.url.EscapedPath(), Secure: p.url.Scheme == "https",
			SameSite: http.SameSiteLaxMode})
	}
	var err error
	if v.Token, err = p.ring.Seal(r.Context(), []byte(bound())); err != nil {
		return refuseStore
	}
	return refusal{}
}

// LocalVisitor is a Visitor for a stdio server's own loopback listener: callers, and local browsers
// with the link, are [protocol.LocalPrincipal]. It refuses remote and proxied requests.
func LocalVisitor(w http.ResponseWriter, r *http.Request) (protocol.Principal, bool) {
	if rules.RefusePeer(r.RemoteAddr, r.Header) != "" {
		refuseRemote.writePage(w)
		return protocol.Principal{}, false
	}
	return protocol.LocalPrincipal(), true
}
