package inspect

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"html/template"
	"math"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/inspection"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var styleCSS string

// Options configure [New]. The zero value admits only browsers on this machine, without Try.
type Options struct {
	// Admit reports whether to serve a request from another machine, to an address other than
	// loopback, or through a proxy. Authenticate with something that other origins' pages cannot
	// send. Calls overlap. Nil refuses all such requests.
	Admit func(r *http.Request) bool
	// Try enables the tab Try, which calls tools with the returned Principal and Access. A zero
	// Principal is [protocol.LocalPrincipal], which may do all. Calls overlap. Nil: no tab.
	Try func(r *http.Request) (*server.StreamOptions, error)
}

// A Part is shown beside the server: a serverhttp.Handler or tasks.Tasks.
type Part interface{ Inspect(ctx context.Context) }

// A Page shows one server and is its [event.Observer].
type Page struct {
	opts     Options
	template *template.Template
	key      []byte // of tokens
	events   recorder
	trials   trials
	server   *server.Server
	parts    []Part
}

var (
	_ event.Observer = (*Page)(nil)
	_ http.Handler   = (*Page)(nil)
)

// New returns a page to observe a new server. opts may be nil. It fails only in a broken release.
func New(opts *Options) (*Page, error) {
	p := &Page{key: make([]byte, 32)}
	if opts != nil {
		p.opts = *opts
	}
	p.events.byID = map[string]*flow{}
	rand.Read(p.key)
	var err error
	p.template, err = template.New("page").Funcs(template.FuncMap{
		"ago":     inspection.Ago,
		"took":    inspection.Took,
		"percent": percent,
		"amount":  amount,
		"head":    headOf,
	}).Parse(pageHTML)
	return p, err
}

// Show sets the server and the parts to show. Call it once, before the page serves.
func (p *Page) Show(srv *server.Server, parts ...Part) { p.server, p.parts = srv, parts }

// A view is the data of the template.
type view struct {
	Tab      string
	Tabs     []tab
	Token    string
	Refresh  int // seconds; 0: the page does not reload
	Report   *inspection.Report
	Waiting  []*flow
	Full     []inspection.Limit // limits more than a tenth full, and the others
	Rest     []inspection.Limit
	Flows    []*flow
	Filter   filter
	States   []string // to filter by
	Flow     *flow
	Refusals []entry
	Try      *tryView
	Missing  string
}

type tab struct{ Path, Name string }

const maxForm = 1 << 20 // bytes of a form of the page

// ServeHTTP serves the page, whose tab is the last path element. Mount it at a path ending in "/".
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would hide the origin of forms
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if why := p.refuse(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	token := p.ensureToken(w, r)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if token == "" || !sharesOrigin(r) ||
			!hmac.Equal([]byte(r.PostFormValue("token")), []byte(token)) {
			http.Error(w, "this form is not of this page, or its browser keeps no cookies: "+
				"reload the page and send it again", http.StatusForbidden)
			return
		}
	default:
		h.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if path.Base(r.URL.Path) == "style.css" {
		h.Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write([]byte(styleCSS))
		return
	}
	p.serveTab(w, r, token)
}

// refuse returns why a request is refused, or "". Other origins are always refused.
func (p *Page) refuse(r *http.Request) string {
	if r.Header["Origin"] != nil && !sharesOrigin(r) {
		return "this page serves no other origin"
	}
	if why := notLocal(r); why != "" && (p.opts.Admit == nil || !p.opts.Admit(r)) {
		return why + ": this page is for browsers on its own machine; open it there by a " +
			"loopback address, through a tunnel such as ssh -L, or admit others with " +
			"inspect.Options.Admit"
	}
	return ""
}

// notLocal returns why a request may come from another machine or a DNS-rebinding page, or "".
func notLocal(r *http.Request) string {
	if why := rules.RefusePeer(r.RemoteAddr, r.Header); why != "" {
		return why
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if addr, err := netip.ParseAddr(host); !strings.EqualFold(host, "localhost") &&
		(err != nil || !addr.Unmap().IsLoopback()) {
		return "the header Host names no loopback address"
	}
	return ""
}

// sharesOrigin reports whether the header Origin names this host.
func sharesOrigin(r *http.Request) bool {
	origins := r.Header["Origin"]
	return len(origins) == 1 && r.Host != "" &&
		(origins[0] == "http://"+r.Host || origins[0] == "https://"+r.Host)
}

// ensureToken returns the form token of the browser's cookie; empty for a POST without cookie.
func (p *Page) ensureToken(w http.ResponseWriter, r *http.Request) string {
	const name = "rondo_inspect"
	secret := ""
	if cookie, err := r.Cookie(name); err == nil && len(cookie.Value) == 26 {
		secret = cookie.Value
	} else {
		if r.Method == http.MethodPost {
			return ""
		}
		secret = rand.Text()
		http.SetCookie(w, &http.Cookie{Name: name, Value: secret, HttpOnly: true,
			Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	}
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(secret))
	return hex.EncodeToString(mac.Sum(nil))
}

func (p *Page) serveTab(w http.ResponseWriter, r *http.Request, token string) {
	v := &view{Token: token, Report: &inspection.Report{},
		Tabs: []tab{{"./", "Overview"}, {"flows", "Flows"}, {"refusals", "Refusals"},
			{"state", "State"}}}
	if p.opts.Try != nil {
		v.Tabs = append(v.Tabs, tab{"try", "Try"})
	}
	v.Tab = path.Base(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") {
		v.Tab = "./"
	}
	status := http.StatusOK
	switch known := slices.ContainsFunc(v.Tabs, func(t tab) bool { return t.Path == v.Tab }); {
	case !known:
		status, v.Missing = http.StatusNotFound, "There is no such tab."
	case p.server == nil:
		v.Missing = "There is no server to show: call Page.Show."
	case v.Tab == "try":
		if p.serveTry(w, r, v) {
			return
		}
	default:
		p.fill(r, v)
	}
	var out bytes.Buffer
	if err := p.template.Execute(&out, v); err != nil {
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}

// fill fills in a read-only tab.
func (p *Page) fill(r *http.Request, v *view) {
	switch v.Tab {
	case "flows":
		query := r.URL.Query()
		id := query.Get("id")
		v.Flows = p.events.flows(id)
		if id != "" && len(v.Flows) > 0 {
			v.Flow = v.Flows[0]
		}
		for _, f := range v.Flows {
			v.States = append(v.States, f.State)
		}
		slices.Sort(v.States)
		v.States = slices.Compact(v.States)
		v.Filter = filter{query.Get("who"), query.Get("tool"), query.Get("state")}
		v.Flows = slices.DeleteFunc(v.Flows, func(f *flow) bool { return !v.Filter.matchesFlow(f) })
	case "refusals":
		v.Refusals = p.events.listRefusals()
	case "state":
		v.Report.Sealed = strings.TrimSpace(r.PostFormValue("state"))
		p.server.Inspect(inspection.With(r.Context(), v.Report))
	default:
		ctx := inspection.With(r.Context(), v.Report)
		p.server.Inspect(ctx)
		for _, part := range p.parts {
			part.Inspect(ctx)
		}
		v.Waiting = p.events.listWaiting(v.Report.QuestionTTL)
		for _, l := range v.Report.Limits {
			if percent(l) >= 10 {
				v.Full = append(v.Full, l)
			} else {
				v.Rest = append(v.Rest, l)
			}
		}
	}
}

func headOf(heads []string, column int) string {
	if column < len(heads) {
		return heads[column]
	}
	return ""
}

// percent returns how full a limit is: 0 without a bound.
func percent(l inspection.Limit) int64 {
	if l.Bound < 0 {
		return 0
	}
	return l.Used * 100 / max(l.Bound, 1)
}

// amount formats an amount of a limit.
func amount(l inspection.Limit, n int64) string {
	unit := 0
	units := [...]string{"", " KiB", " MiB", " GiB"}
	switch {
	case n < 0:
		return "no limit"
	case !l.Bytes:
		return strconv.FormatInt(n, 10)
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	}
	size := float64(n)
	for size >= 1<<10 && unit < len(units)-1 {
		size, unit = size/(1<<10), unit+1
	}
	return strconv.FormatFloat(math.Round(size*10)/10, 'f', -1, 64) + units[unit]
}
