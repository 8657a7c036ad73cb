package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A deployment is main's server behind an authorization server.
type deployment struct {
	bank     *bank
	url      string
	issuer   *oauthtest.Server
	registry *prometheus.Registry
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{issuer: oauthtest.NewServer(t, nil), registry: prometheus.NewRegistry()}
	mux := http.NewServeMux()
	ts := httptest.NewServer(mux)
	t.Cleanup(ts.Close)
	d.url = ts.URL + "/mcp"
	d.bank = &bank{t.TempDir(), ts.URL}
	guard, err := bearer.New(bearer.Options{Resource: d.url,
		Issuers: []bearer.Issuer{{URL: d.issuer.URL}}, Supported: []string{scopeRead}})
	testkit.NoError(t, err)
	srv, err := newServer(d.bank, &settings{}, zap.NewNop(), d.registry, nil)
	testkit.NoError(t, err)
	t.Cleanup(func() { srv.Close() })
	handler, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	testkit.NoError(t, err)
	mux.Handle("/mcp", handler)
	mux.HandleFunc("/visits/{visit}", d.bank.serveVisit)
	mux.Handle(guard.Metadata())
	return d
}

// connect returns a client of a user who logs in, approves, and visits pages.
func (d *deployment) connect(t *testing.T, era protocol.Era, approve bool) *client.Client {
	t.Helper()
	login, err := oauth.New(d.url, &oauth.Options{
		Interaction: &oauth.Loopback{Browse: oauthtest.NewBrowser(t).Open}})
	testkit.NoError(t, err)
	over, err := clienthttp.New(d.url, &clienthttp.Options{Authorizer: login})
	testkit.NoError(t, err)
	c, err := client.New(over, &client.Options{
		Era: era,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			if !approve {
				time.Sleep(time.Second / 2) // an immediate answer would not be a person's
				return &protocol.ElicitResult{Action: protocol.ActionDecline}, nil
			}
			return &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: json.RawMessage(`{"reference":"May"}`)}, nil
		},
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (
			*protocol.ElicitResult, error) {
			response, err := http.Post(q.URL, "application/x-www-form-urlencoded", nil)
			if err != nil {
				return nil, err
			}
			return &protocol.ElicitResult{Action: protocol.ActionAccept}, response.Body.Close()
		},
		CreateMessage: func(context.Context, *client.SamplingQuestion) (
			*protocol.CreateMessageResult, error) {
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "m",
				Content: []protocol.Content{&protocol.TextContent{Text: "A coffee."}}}, nil
		},
	})
	testkit.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func callText(t *testing.T, c *client.Client, tool string, arguments any) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text, ok := result.Content[0].(*protocol.TextContent)
	if !ok {
		t.Fatalf("%s answers with %T", tool, result.Content[0])
	}
	return text.Text
}

func eachEra(t *testing.T, test func(t *testing.T, era protocol.Era)) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) { test(t, era) })
	}
}

func TestEveryTool(t *testing.T) {
	eachEra(t, func(t *testing.T, era protocol.Era) {
		c := deploy(t).connect(t, era, true)
		for _, step := range []struct {
			tool      string
			arguments any
			want      string
		}{
			{"balance", struct{}{}, `{"payments":0}`},
			{"pay", Bill{To: "Ada", Cents: 1250}, "Paid."},
			{"balance", struct{}{}, `{"payments":1}`},
			{"connect", struct{}{}, "The account is connected."},
			{"explain", Entry{Text: "CFE 4711"}, "A coffee."},
		} {
			if got := callText(t, c, step.tool, step.arguments); got != step.want {
				t.Errorf("%s answers %q, want %q", step.tool, got, step.want)
			}
		}
	})
}

func TestDeclinedPaymentMovesNothing(t *testing.T) {
	eachEra(t, func(t *testing.T, era protocol.Era) {
		c := deploy(t).connect(t, era, false)
		got := callText(t, c, "pay", Bill{To: "Ada", Cents: 1250})
		if want := "Nothing was paid: the person declined."; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := callText(t, c, "balance", struct{}{}); got != `{"payments":0}` {
			t.Error(got)
		}
	})
}

func TestSettingsThatAreMissing(t *testing.T) {
	good := map[string]string{envURL: "https://mcp.example.com/mcp",
		envIssuer: "https://login.example.com", envData: t.TempDir(),
		envKeys: "k:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
	for name, value := range good {
		t.Setenv(name, value)
	}
	if _, err := settingsFromEnv(false); err != nil {
		t.Fatal(err)
	}
	for name := range good {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "")
			if s, err := settingsFromEnv(false); err == nil {
				t.Errorf("got %+v and no error", s)
			}
		})
	}
}

func TestReplicasThatAreNamedInHalfAreAnError(t *testing.T) {
	const urls = "a=http://10.0.0.1:8080/mcp,b=http://10.0.0.2:8080/mcp"
	tests := []struct{ name, replica, replicas, says string }{
		{"no addresses", "a", "", envReplicas},
		{"no name", "", urls, envReplica},
		{"no address of its own", "c", urls, `"c"`},
		{"no address", "a", "a", envReplicas},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(envReplica, test.replica)
			t.Setenv(envReplicas, test.replicas)
			_, err := replicasFromEnv(nil)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error that names %s", err, test.says)
			}
		})
	}
}

// The operators' files name existing series, labels and values, in the dashboard and the alerts.
func TestOperatorsFilesNameWhatThereIs(t *testing.T) {
	d := deploy(t)
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		callText(t, d.connect(t, era, true), "balance", struct{}{})
	}
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(file)
			testkit.NoError(t, err)
			checkExpressions(t, strings.ReplaceAll(string(data), `\"`, `"`), d.registry)
		})
	}
}

var (
	selector = regexp.MustCompile(`(rondo_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)=~?"([^"]*)"`)
	summed   = regexp.MustCompile(`sum by \((\w+)\) \(\w+\((rondo_\w+)`)
)

// outcomes are values whose series only exist after a request with that outcome.
var outcomes = map[string]bool{"internal_error": true, "busy": true}

func checkExpressions(t *testing.T, text string, registry *prometheus.Registry) {
	families, err := registry.Gather()
	testkit.NoError(t, err)
	labels := map[string]map[string]map[string]bool{} // from series to label to values
	for _, family := range families {
		of := map[string]map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if of[l.GetName()] == nil {
					of[l.GetName()] = map[string]bool{}
				}
				of[l.GetName()][l.GetValue()] = true
			}
		}
		labels[family.GetName()] = of
	}
	found := 0
	for _, m := range selector.FindAllStringSubmatch(text, -1) {
		of, ok := labels[strings.TrimSuffix(m[1], "_bucket")]
		if !ok {
			t.Errorf("there is no %s", m[1])
			continue
		}
		found++
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			for value := range strings.SplitSeq(label[2], "|") {
				if label[1] != "job" && !of[label[1]][value] && !outcomes[value] {
					t.Errorf("%s has no %s=%q; it has %v", m[1], label[1], value, of[label[1]])
				}
			}
		}
	}
	for _, m := range summed.FindAllStringSubmatch(text, -1) {
		if of := labels[strings.TrimSuffix(m[2], "_bucket")]; m[1] != "job" && m[1] != "le" &&
			of[m[1]] == nil {
			t.Errorf("%s has no label %s", m[2], m[1])
		}
	}
	if found < 10 {
		t.Errorf("%d series are named", found)
	}
}
