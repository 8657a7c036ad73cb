//go:build node && proxy

package interop_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// production is the folder of the server to copy. It has its proxies' configurations.
const production = "../../examples/production"

// Three processes of examples/production are one server for clients of both eras, whichever process
// dies and whichever keys are changed. Operators see these events.
func TestProductionFleet(t *testing.T) {
	program := buildProgram(t, "examples/production")
	installedProxies(t)
	for _, p := range append(proxies(), stickyProxy()) {
		t.Run(p.file, func(t *testing.T) {
			t.Parallel()
			d := deployProduction(t, program, p)
			t.Run("tools", d.checkTools)
			t.Run("login", d.checkLogins)
			for _, of := range []string{"rondo", "official", "mcp-go"} {
				t.Run("a replica is killed in mid-question, "+of,
					func(t *testing.T) { d.checkOwnerKilled(t, of) })
			}
			t.Run("replicas are killed in mid-flow", d.checkReplicasKilled)
			t.Run("the issuer changes its keys", d.checkIssuerRotation)
			t.Run("sealing keys change", d.checkRotation)
			if p.file == "nginx.conf" {
				t.Run("operators", d.checkMetrics)
			}
		})
	}
}

// A deployment is a fleet of examples/production behind a proxy and an authorization server.
type deployment struct {
	*fleet
	t      *testing.T // processes end with this test
	url    string     // the endpoint's URL, at the proxy
	data   string     // folder that the replicas share
	issuer *oauthtest.Server
	admins []string // operators' address of each replica
	others string   // addresses of the replicas; empty: they do not know each other
	keys   string   // value of RONDO_KEYS
}

func deployProduction(t *testing.T, program string, p proxy) *deployment {
	t.Helper()
	d := &deployment{t: t, fleet: &fleet{}, data: t.TempDir(), issuer: oauthtest.NewServer(t, nil),
		keys: newSealingKey("first")}
	for _, name := range []string{"a", "b", "c"} {
		admin := freeAddress(t)
		d.admins = append(d.admins, admin)
		d.replicas = append(d.replicas, &replica{program: program, name: name,
			address: freeAddress(t), args: []string{"-admin", admin, "-notice", "0s"}})
	}
	if p.file != stickyProxy().file {
		var list []string
		for _, r := range d.replicas {
			list = append(list, r.name+"=http://"+r.address+"/mcp")
		}
		d.others = strings.Join(list, ",")
	}
	p.serveURL(t, func(address string) []string {
		d.url = "http://" + address + "/mcp"
		for _, r := range d.replicas {
			d.start(r)
		}
		return d.addresses()
	})
	return d
}

// start starts a replica with the current settings. It runs until the deployment's test ends.
func (d *deployment) start(r *replica) {
	r.env = []string{"MCP_URL=" + d.url, "MCP_ISSUER=" + d.issuer.URL, "MCP_DATA=" + d.data,
		"RONDO_KEYS=" + d.keys, "RONDO_REPLICA=", "RONDO_REPLICAS=" + d.others}
	if d.others != "" {
		r.env = append(r.env, "RONDO_REPLICA="+r.name)
	}
	r.start(d.t)
}

// restart shuts a replica down gracefully and starts it with the current settings.
func (d *deployment) restart(r *replica) {
	_ = r.process.In.Close() // this makes the guard end it
	_, _ = io.Copy(io.Discard, r.process.Out)
	d.start(r)
}

func newSealingKey(id string) string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	return id + ":" + base64.StdEncoding.EncodeToString(secret)
}

func makes() []string { return []string{"rondo", "official", "mcp-go", "TypeScript"} }

// dial connects a client with its own token.
func (d *deployment) dial(t *testing.T, of, revision string, who *person) peer {
	t.Helper()
	token := d.issuer.Issue(oauthtest.Grant{Resource: d.url,
		Scopes: []string{"accounts:read", "accounts:pay"}})
	if of != "TypeScript" {
		return shapeClients()[of](t, d.url, revision, newVisit(t, token), who, false)
	}
	var negotiate any = "legacy"
	if revision == modern {
		negotiate = map[string]string{"pin": modern}
	}
	c := startTS(t, "client").connect(t, who, map[string]any{"endpoint": d.url, "mute": false,
		"negotiate": negotiate, "headers": map[string]string{"Authorization": "Bearer " + token}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c.connected = false
		// Otherwise the session would keep its replica alive.
		if _, err := c.tell(ctx, "disconnect", "session"); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newPayer returns a user who approves the request payment, and nothing else.
func newPayer(t *testing.T) *person {
	return newPerson(t, answers{"Pay 12.50 to Ada?": `{"reference":"May"}`})
}

func payment() request {
	r := tool("pay", map[string]string{"to": "Ada"})
	r.More = map[string]any{"cents": 1250}
	return r
}

const paid = "Paid."

func (d *deployment) payments(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.data, "payment-*"))
	noError(t, err)
	return len(files)
}

// wantPayments checks that n payments followed the first since payments.
func (d *deployment) wantPayments(t *testing.T, since, n int) {
	t.Helper()
	if got := d.payments(t) - since; got != n {
		t.Errorf("%d payments were made, want %d", got, n)
	}
}

// checkTools checks that every tool works in both eras for clients of every make.
func (d *deployment) checkTools(t *testing.T) {
	for _, of := range makes() {
		for _, revision := range []string{modern, v20251125} {
			t.Run(of+"/"+revision, func(t *testing.T) {
				before := d.payments(t)
				who := newPayer(t)
				who.answers["Please log in to your bank."] = "{}"
				who.answers["CFE 4711"] = "A coffee."
				who.open = func(ctx context.Context, url string) { submitPage(ctx, t, url) }
				c := d.dial(t, of, revision, who)
				ctx := within(t, patience)
				for _, step := range []struct {
					request request
					want    string
				}{
					{tool("balance", nil), fmt.Sprintf(`{"payments":%d}`, before)},
					{payment(), paid},
					{tool("balance", nil), fmt.Sprintf(`{"payments":%d}`, before+1)},
					{tool("connect", nil), "The account is connected."},
					{tool("explain", map[string]string{"text": "CFE 4711"}), "A coffee."},
				} {
					got, err := c.do(ctx, step.request)
					if err != nil || got != step.want {
						t.Errorf("%s: got %q, %v, want %q", step.request.Target, got, err,
							step.want)
					}
				}
				who.wantAsked(1)
				d.wantPayments(t, before, 1)
			})
		}
	}
}

// submitPage sends a page's form, like a browser.
func submitPage(ctx context.Context, t *testing.T, at string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, nil)
	if err != nil {
		t.Error(err)
		return
	}
	browser := &http.Transport{DisableKeepAlives: true}
	resp, err := browser.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the page of the visit: %s", resp.Status)
	}
}

// checkLogins checks that clients without a token learn behind the proxy where to get one.
func (d *deployment) checkLogins(t *testing.T) {
	for _, of := range authorizedClients() {
		for _, revision := range []string{modern, v20251125} {
			t.Run(of.make+"/"+revision, func(t *testing.T) {
				call := of.dial(t, d.url, revision, oauthtest.NewBrowser(t))
				got, err := call(within(t, patience), "balance")
				want := fmt.Sprintf(`{"payments":%d}`, d.payments(t))
				if err != nil || got != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			})
		}
	}
}

// checkOwnerKilled kills the replica that owns a session while its user is asked. The call fails
// and nothing is paid. Another replica serves the next session. TypeScript's clients are excluded,
// because they wait for the answer until their timeout (testdata/replicas.md).
func (d *deployment) checkOwnerKilled(t *testing.T, of string) {
	before := d.payments(t)
	ctx := within(t, patience)
	who := newPayer(t)
	var owner *replica
	who.whenAsked = sync.OnceFunc(func() {
		if owner = d.findWaiting(ctx, t); owner != nil {
			owner.kill(t)
		}
	})
	c := d.dial(t, of, v20251125, who)
	got, err := c.do(ctx, payment())
	if owner == nil {
		t.Fatalf("no replica waits for the person; the call ends with %q, %v", got, err)
	}
	defer func() {
		d.start(owner)
		d.settle(ctx, t)
	}()
	if err == nil {
		t.Errorf("got %q, want an error: the replica is gone", got)
	}
	d.wantPayments(t, before, 0)
	d.settle(ctx, t)
	if of != "rondo" { // only rondo's client opens a session by itself
		c = d.dial(t, of, v20251125, who)
	}
	for got != paid && ctx.Err() == nil { // a replica may still have to notice the death
		got, err = c.do(ctx, payment())
	}
	if got != paid {
		t.Errorf("the next session: got %q, %v, want %q", got, err, paid)
	}
	d.wantPayments(t, before, 1)
}

// settle returns when the proxy and the replicas have noticed the killed replica. Until then they
// may send it requests over an open connection; these fail and must not be repeated.
func (d *deployment) settle(ctx context.Context, t *testing.T) {
	t.Helper()
	for unbroken := 0; unbroken < 2*len(d.replicas); unbroken++ {
		c := d.dial(t, "rondo", v20251125, newPayer(t)).(rondo)
		for range d.replicas {
			if _, err := c.do(ctx, tool("balance", nil)); err != nil {
				unbroken = -1
			}
		}
		_ = c.Close()
		noError(t, ctx.Err())
	}
}

// findWaiting returns the replica where a call waits for a user, or nil.
func (d *deployment) findWaiting(ctx context.Context, t *testing.T) *replica {
	for ctx.Err() == nil {
		for i, r := range d.replicas {
			if d.read(t, i, "rondo_requests_waiting", "") > 0 {
				return r
			}
		}
	}
	return nil
}

func (d *deployment) scrape(t *testing.T, replica int) string {
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).
		Get("http://" + d.admins[replica] + "/metrics")
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// read returns the sum of a replica's series that have a name and a label.
func (d *deployment) read(t *testing.T, replica int, name, label string) (sum float64) {
	for line := range strings.Lines(d.scrape(t, replica)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(series, "{"); !ok || bare != name ||
			!strings.Contains(series, label) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Error(err)
		}
		sum += n
	}
	return sum
}

func (d *deployment) readAll(t *testing.T, name, label string) (sum float64) {
	for i := range d.replicas {
		sum += d.read(t, i, name, label)
	}
	return sum
}

// checkReplicasKilled kills every replica once. Flows of 2026-07-28 do not notice it.
func (d *deployment) checkReplicasKilled(t *testing.T) {
	d.holdFlows(t, func() int {
		for _, r := range d.replicas {
			r.kill(t)
			d.start(r)
		}
		d.settle(within(t, patience), t)
		return 0
	})
}

// holdFlows makes a client of each make request a payment, and calls the function during while
// users are asked: it returns how many more payments to expect. Then all users approve.
func (d *deployment) holdFlows(t *testing.T, during func() int) {
	t.Helper()
	before, n := d.payments(t), len(makes())
	ctx := within(t, patience)
	release := make(chan struct{})
	answer := sync.OnceFunc(func() { close(release) })
	defer answer()
	asked, ended := make(chan struct{}, n), make(chan string, n)
	for _, of := range makes() {
		who := newPayer(t)
		who.whenAsked = func() {
			asked <- struct{}{}
			<-release
		}
		c := d.dial(t, of, modern, who)
		go func() {
			got, err := c.do(ctx, payment())
			if err != nil || got != paid {
				ended <- fmt.Sprintf("%s: got %q, %v, want %q", of, got, err, paid)
				return
			}
			ended <- ""
		}()
	}
	for range n {
		select {
		case <-asked:
		case failure := <-ended:
			t.Fatal("a call ended before its person was asked: ", failure)
		}
	}
	others := during()
	answer()
	for range n {
		if failure := <-ended; failure != "" {
			t.Error(failure)
		}
	}
	d.wantPayments(t, before, n+others)
}

// checkIssuerRotation replaces the issuer's key. No request with a good token is refused.
func (d *deployment) checkIssuerRotation(t *testing.T) {
	const refusals, unauthorized = "rondo_http_refusals_total", `status="401"`
	before := d.readAll(t, refusals, unauthorized)
	ctx := within(t, patience)
	call := func(clients ...peer) {
		t.Helper()
		for range 2 * len(d.replicas) { // each replica gets each token
			for _, c := range clients {
				if got, err := c.do(ctx, tool("balance", nil)); err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			}
		}
	}
	dial := func() peer { return d.dial(t, "rondo", modern, newPayer(t)) }
	early := dial()
	call(early)
	d.issuer.RotateKeys()
	call(early, dial(), d.dial(t, "rondo", v20251125, newPayer(t)))
	d.issuer.RetireKeys()
	call(dial())
	if n := d.readAll(t, refusals, unauthorized) - before; n != 0 {
		t.Errorf("%v requests were refused with 401", n)
	}
}

// checkRotation adds the new key behind the old one, puts it in front, and then removes the old
// one, each time one replica after the other. Flows that began before, and at every step, succeed.
func (d *deployment) checkRotation(t *testing.T) {
	first, second := d.keys, newSealingKey("second")
	d.holdFlows(t, func() int {
		return d.rollOut(t, first+","+second) + d.rollOut(t, second+","+first)
	})
	d.rollOut(t, second)
}

// rollOut changes the replicas' keys, and makes payments in between. It returns their number.
func (d *deployment) rollOut(t *testing.T, keys string) (payments int) {
	t.Helper()
	d.keys = keys
	c := d.dial(t, "rondo", modern, newPayer(t))
	ctx := within(t, patience)
	for _, r := range d.replicas {
		d.restart(r)
		for range d.replicas {
			if got, err := c.do(ctx, payment()); err != nil || got != paid {
				t.Errorf("got %q, %v, want %q", got, err, paid)
			}
			payments++
		}
	}
	return payments
}
