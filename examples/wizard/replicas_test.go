package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/leaktest"
	"github.com/rondo-mcp/rondo/internal/proctest"
	"github.com/rondo-mcp/rondo/internal/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	replicaVar = "RONDO_WIZARD_BANK" // URL of the bank; makes the test binary a replica
	keyVar     = "RONDO_WIZARD_KEYS"
	copies     = 100
)

// TestMain lets the test binary be started again as one of two servers.
func TestMain(m *testing.M) {
	if os.Getenv(replicaVar) != "" {
		os.Exit(replica(os.Stdin, os.Stdout))
	}
	leaktest.Main(m)
}

// replica serves until its standard input ends, and prints its address first.
func replica(in io.Reader, out io.Writer) int {
	ring, err := keys.KeyringFromEnv(os.LookupEnv, keyVar)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	srv, err := newServer(newShop(os.Getenv(replicaVar)),
		roundtrip.Options{Sealer: ring, Sealing: roundtrip.SealWithSharedKey})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	web := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = web.Close()
	}()
	_ = web.Serve(listener)
	return 0
}

// remoteBank is a bank at the end of an HTTP connection.
type remoteBank struct{ url string }

func (b remoteBank) Charge(ctx context.Context, key string, cents int) (string, error) {
	form := url.Values{"key": {key}, "cents": {fmt.Sprint(cents)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url,
		strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	receipt, err := io.ReadAll(response.Body)
	return string(receipt), err
}

// vault is the bank's side: it counts who knocks and what is moved.
type vault struct {
	mu       sync.Mutex
	knocks   int
	receipts map[string]string
}

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.PostFormValue("key")
	v.mu.Lock()
	defer v.mu.Unlock()
	v.knocks++
	if v.receipts[key] == "" {
		v.receipts[key] = fmt.Sprintf("receipt %d over %s", len(v.receipts)+1,
			r.PostFormValue("cents"))
	}
	fmt.Fprint(w, v.receipts[key])
}

func (v *vault) count() (knocks, charges int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.knocks, len(v.receipts)
}

// moving is a market where no two looks give the same price, on any replica.
type moving struct{}

func (moving) Quote(context.Context, string, int) (int, error) {
	return mathrand.IntN(1_000_000_000), nil
}

func newShop(bank string) *shop {
	return &shop{prices: moving{}, bank: remoteBank{bank}, notify: func(string) {}}
}

// multiplier sends the final leg of a flow many times at once instead of once,
// and gives the client the first answer that is a result.
type multiplier struct {
	t      *testing.T
	legs   int
	bodies []string // of the answers to the final leg
	again  func() string
}

func (m *multiplier) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m.legs++
	send := func() (*http.Response, string) {
		copied := r.Clone(context.WithoutCancel(r.Context()))
		copied.Body, copied.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		response, err := http.DefaultTransport.RoundTrip(copied)
		if err != nil {
			m.t.Error(err)
			return nil, ""
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			m.t.Error(err)
		}
		response.Body = io.NopCloser(bytes.NewReader(answer))
		return response, string(answer)
	}
	if !bytes.Contains(body, []byte(`"change":"nothing"`)) {
		response, _ := send()
		if response == nil {
			return nil, errors.New("no response")
		}
		return response, nil
	}
	m.again = func() string { _, answer := send(); return answer }
	var result *http.Response
	var mu sync.Mutex
	var group sync.WaitGroup
	start := make(chan struct{})
	for range copies {
		group.Go(func() {
			<-start
			response, answer := send()
			mu.Lock()
			defer mu.Unlock()
			m.bodies = append(m.bodies, answer)
			if strings.Contains(answer, "receipt") && result == nil {
				result = response
			}
		})
	}
	close(start)
	group.Wait()
	if result == nil {
		return nil, errors.New("no leg was served")
	}
	return result, nil
}

// roundRobin is the address of a proxy that sends each request to the next.
func roundRobin(t *testing.T, targets ...string) (string, *[2]atomic.Int64) {
	var next atomic.Int64
	var went [2]atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		i := next.Add(1) % int64(len(targets))
		went[i].Add(1)
		target, err := url.Parse(targets[i])
		if err != nil {
			t.Error(err)
			return
		}
		r.SetURL(target)
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL, &went
}

// buy takes a whole flow through the proxy.
func buy(t *testing.T, proxy string) (string, *multiplier) {
	t.Helper()
	wire := &multiplier{t: t}
	transport, err := clienthttp.New(proxy,
		&clienthttp.Options{HTTPClient: &http.Client{Transport: wire}})
	if err != nil {
		t.Fatal(err)
	}
	answers := []string{`{"name":"us"}`, `{"gigabytes":500}`, `{"change":"region"}`,
		`{"name":"eu"}`, `{}`, `{"change":"nothing"}`}
	c, err := client.New(transport, &client.Options{
		Era: protocol.Modern,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			answer := answers[0]
			answers = answers[1:]
			return &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: json.RawMessage(answer)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(t.Context(), "provision", Order{Name: "books"})
	if err != nil {
		t.Fatal(err)
	}
	return result.Content[0].(*protocol.TextContent).Text, wire
}

func newVault(t *testing.T) (*vault, string) {
	v := &vault{receipts: map[string]string{}}
	web := httptest.NewServer(v)
	t.Cleanup(web.Close)
	return v, web.URL
}

func newKeys() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	return "k1:" + base64.StdEncoding.EncodeToString(secret)
}

// TestTwoReplicasWithAGuard sends the final leg a hundred times at once through
// a round-robin proxy to two servers that share a key and a guard: the bank is
// asked once. Later copies get the outcome that was recorded.
func TestTwoReplicasWithAGuard(t *testing.T) {
	v, bank := newVault(t)
	t.Setenv(keyVar, newKeys())
	guard := store.NewMemoryGuard(0)
	var targets []string
	for range 2 {
		ring, err := keys.KeyringFromEnv(os.LookupEnv, keyVar)
		if err != nil {
			t.Fatal(err)
		}
		srv, err := newServer(newShop(bank),
			roundtrip.Options{Sealer: ring, Sealing: roundtrip.SealWithSharedKey, Guard: guard})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = srv.Close() })
		web := httptest.NewServer(servertest.NewHandler(t, srv, nil))
		t.Cleanup(web.Close)
		targets = append(targets, web.URL)
	}
	proxy, went := roundRobin(t, targets...)
	text, wire := buy(t, proxy)
	if knocks, charges := v.count(); knocks != 1 || charges != 1 {
		t.Errorf("the bank was asked %d times and moved money %d times, want once", knocks, charges)
	}
	served := 0
	for _, body := range wire.bodies {
		switch {
		case strings.Contains(body, text):
			served++
		case !strings.Contains(body, `"code":23223`):
			t.Errorf("a copy got %s", body)
		}
	}
	if len(wire.bodies) != copies || served == 0 || wire.legs != 7 || went[0].Load() < copies/2 ||
		went[1].Load() < copies/2 {
		t.Errorf("%d copies, %d served, in leg %d, to %d and %d", len(wire.bodies), served, wire.legs, went[0].Load(), went[1].Load())
	}
	if late := wire.again(); !strings.Contains(late, text) {
		t.Errorf("a late copy got %s, want the recorded outcome", late)
	}
	if knocks, _ := v.count(); knocks != 1 {
		t.Errorf("the bank was asked %d times in the end", knocks)
	}
}

// TestTwoProcesses does the same with two processes that share a key and nothing
// else: every copy is served, and the name of the charge, which all of them
// agree on, lets the bank move the money once.
func TestTwoProcesses(t *testing.T) {
	v, bank := newVault(t)
	names := newKeys()
	proxy, went := roundRobin(t, startReplica(t, bank, names), startReplica(t, bank, names))
	text, wire := buy(t, proxy)
	if knocks, charges := v.count(); knocks != copies || charges != 1 {
		t.Errorf("the bank was asked %d times and moved money %d times, want %d and once", knocks, charges, copies)
	}
	for _, body := range wire.bodies {
		if !strings.Contains(body, text) {
			t.Errorf("a copy got %s, want %s", body, text)
		}
	}
	if wire.legs != 7 || went[0].Load() < copies/2 || went[1].Load() < copies/2 {
		t.Errorf("%d legs, to %d and %d", wire.legs, went[0].Load(), went[1].Load())
	}
}

func startReplica(t *testing.T, bank, names string) (address string) {
	t.Helper()
	return proctest.Start(t, proctest.Self(t, replicaVar+"="+bank, keyVar+"="+names)).Line()
}
