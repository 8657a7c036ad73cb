//go:build node && proxy

package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// checkMetrics checks that Prometheus can read the metrics of all replicas, the alert rules and the
// dashboard's expressions. All find their series. No alert fires, until a replica lacks a key.
func (d *deployment) checkMetrics(t *testing.T) {
	bin := filepath.Join(servertest.UnpackDebs(t, "prometheus", "prometheus"), "usr/bin")
	rules, err := filepath.Abs(filepath.Join(production, "alerts.yml"))
	noError(t, err)
	t.Logf("%s", runIn(t, ".", filepath.Join(bin, "promtool"), "check", "rules", rules))
	for i, r := range d.replicas {
		check := exec.CommandContext(t.Context(), filepath.Join(bin, "promtool"), "check",
			"metrics")
		check.Stdin = strings.NewReader(d.scrape(t, i))
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("metrics of %s: %v\n%s", r.name, err, out)
		}
	}
	p := startPrometheus(t, filepath.Join(bin, "prometheus"), rules, d.admins)
	var c peer
	for _, era := range []string{v20251125, modern} { // rules name series of both eras
		c = d.dial(t, "rondo", era, newPayer(t))
		if got, err := c.do(p.ctx, payment()); err != nil || got != paid {
			t.Errorf("got %q, %v, want %q", got, err, paid)
		}
	}
	p.await("three replicas", func() bool {
		return p.count(`rate(rondo_requests_in_flight{job="mcp"}[1m])`) == len(d.replicas)
	})
	p.checkDashboard()
	p.checkRules()

	before := d.keys
	d.keys = newSealingKey("stray")
	d.restart(d.replicas[0])
	for d.readAll(t, "rondo_state_rejections_total", `reason="unknown_key"`) == 0 &&
		p.ctx.Err() == nil {
		_, _ = c.do(p.ctx, payment()) // it fails if the replica opens or seals
	}
	p.await("alert", func() bool { return p.states()["MCPReplicaLacksAKey"] == "firing" })
	d.keys = before
}

type prometheus struct {
	t   *testing.T
	ctx context.Context
	url string
	web *http.Client
}

const prometheusConfig = `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: mcp
    static_configs: [{targets: [%s]}]
`

func startPrometheus(t *testing.T, program, rules string, targets []string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	writeText(t, config, fmt.Sprintf(prometheusConfig, rules,
		`"`+strings.Join(targets, `","`)+`"`))
	address := freeAddress(t)
	startGuarded(t, nil, nil, program, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address,
		"--log.level=warn")
	web := &http.Transport{DisableKeepAlives: true}
	p := &prometheus{t, within(t, patience), "http://" + address, &http.Client{Transport: web}}
	p.await("Prometheus", func() bool { return p.get("/-/ready", nil, nil) == nil })
	return p
}

// await polls until the function so returns true. what describes the condition.
func (p *prometheus) await(what string, so func() bool) {
	p.t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-p.ctx.Done():
			p.t.Fatalf("%s: not in time", what)
		}
	}
}

// get queries the API. into may be nil.
func (p *prometheus) get(path string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(p.ctx, http.MethodGet,
		p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := p.web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

func (p *prometheus) count(expression string) int {
	p.t.Helper()
	var found struct{ Result []json.RawMessage }
	if err := p.get("/api/v1/query", url.Values{"query": {expression}}, &found); err != nil {
		p.t.Errorf("%s: %v", expression, err)
	}
	return len(found.Result)
}

// A rule is an alert rule that Prometheus has loaded.
type rule struct{ Name, Query, State, Health, LastError string }

func (p *prometheus) rules() (all []rule) {
	p.t.Helper()
	var loaded struct{ Groups []struct{ Rules []rule } }
	if err := p.get("/api/v1/rules", nil, &loaded); err != nil {
		p.t.Errorf("rules: %v", err)
	}
	for _, group := range loaded.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func (p *prometheus) states() map[string]string {
	p.t.Helper()
	by := map[string]string{}
	for _, r := range p.rules() {
		by[r.Name] = r.State
	}
	return by
}

// checkDashboard checks that every expression of the dashboard has a value.
func (p *prometheus) checkDashboard() {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(production, "dashboard.json"))
	noError(p.t, err)
	var dashboard any
	noError(p.t, json.Unmarshal(data, &dashboard))
	expressions := findExpressions(dashboard)
	if len(expressions) < 10 {
		p.t.Errorf("the dashboard has %d expressions", len(expressions))
	}
	values := strings.NewReplacer("$__rate_interval", "1m", "$job", "mcp")
	for _, expression := range expressions {
		if p.count(values.Replace(expression)) == 0 {
			p.t.Errorf("the dashboard's %s has no value", expression)
		}
	}
	p.t.Logf("%d expressions of the dashboard have values", len(expressions))
}

// findExpressions returns Grafana's queries to Prometheus.
func findExpressions(node any) (found []string) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			found = append(found, findExpressions(child)...)
		}
	case map[string]any:
		for name, child := range node {
			if text, ok := child.(string); ok && name == "expr" {
				found = append(found, text)
			}
			found = append(found, findExpressions(child)...)
		}
	}
	return found
}

// Series in alert rules, and label values that only appear with their first event.
var (
	alertSeries = regexp.MustCompile(`rondo_\w+(\{[^}]*\})?`)
	lateOutcome = regexp.MustCompile(`\{outcome="(internal_error|busy)"\}`)
	lateStatus  = regexp.MustCompile(`\{status="\d+"\}`)
)

// checkRules checks that every rule is evaluated and finds its series, and that none fires.
func (p *prometheus) checkRules() {
	p.t.Helper()
	p.await("rules", func() bool {
		for _, r := range p.rules() {
			if r.Health == "unknown" {
				return false
			}
		}
		return true
	})
	rules := p.rules()
	if len(rules) < 5 {
		p.t.Errorf("there are %d rules", len(rules))
	}
	for _, r := range rules {
		if r.Health != "ok" || r.State == "firing" {
			p.t.Errorf("the rule %s is %s, and %s: %s", r.Name, r.Health, r.State, r.LastError)
		}
		for _, series := range alertSeries.FindAllString(r.Query, -1) {
			present := lateOutcome.ReplaceAllString(lateStatus.ReplaceAllString(series, ""), "")
			if p.count(present) == 0 {
				p.t.Errorf("the rule %s names %s, which no replica has", r.Name, series)
			}
		}
	}
	p.t.Logf("%d rules are evaluated", len(rules))
}
