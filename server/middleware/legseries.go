package middleware

import (
	"maps"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

const (
	seriesRequests = iota
	seriesDurations
	seriesWaits
	seriesInFlight
	seriesWaiting
	seriesBuild
)

// seriesOfLegs lists the middleware's metrics, and build_info.
func seriesOfLegs(o Options) []event.Series {
	count, timed := []string{"method", "era", "outcome"}, []string{"method", "era"}
	if o.Targets != nil {
		count, timed = append(count, "target"), append(timed, "target")
	}
	return []event.Series{
		seriesRequests: {Name: "requests_total", Labels: count,
			Help: "Requests answered, counting each leg of a flow."},
		seriesDurations: {Name: "request_duration_seconds", Labels: timed,
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
				30, 60},
			Help: "Time from a request to its response, without waits for users, for each leg " +
				"of a flow."},
		seriesWaits: {Name: "request_waiting_seconds", Labels: timed, Buckets: event.WaitBuckets(),
			Help: "Time for which requests with questions waited for users, for each leg of a flow."},
		seriesInFlight: {Name: "requests_in_flight", Gauge: true, Help: "Requests being served."},
		seriesWaiting: {Name: "requests_waiting", Gauge: true,
			Help: "Requests being served that wait for users."},
		seriesBuild: {Name: "build_info", Labels: []string{"version", "goversion", "revision"},
			Constant: true, Help: "Always 1; the labels say what runs."},
	}
}

// A legSeries has the series of legs by labels, copied on write as the sink's look-up is slow.
type legSeries struct {
	requests, durations, waits event.Vector
	targets                    map[string]bool // nil: no label

	mu    sync.Mutex // held to add to found
	found atomic.Pointer[map[legLabels]boundSeries]
}

// legLabels are the labels of a leg. They have few values, whatever peers send.
type legLabels struct {
	method, outcome, target string
	era                     protocol.Era
}

// boundSeries are the series of one set of labels. Waits are rare and not bound.
type boundSeries struct{ requests, durations event.Instrument }

func (s *legSeries) init(targets []string, vectors []event.Vector) {
	s.requests, s.durations = vectors[seriesRequests], vectors[seriesDurations]
	s.waits = vectors[seriesWaits]
	s.found.Store(&map[legLabels]boundSeries{})
	if targets != nil {
		s.targets = make(map[string]bool, len(targets))
	}
	for _, name := range targets {
		s.targets[name] = true
	}
}

func (s *legSeries) countLeg(request *server.Request, outcome string, work, waited time.Duration) {
	labels := legLabels{methodLabel(request.Message.Method), outcome,
		s.targetLabel(request.Target), request.Version.Era()}
	series, ok := (*s.found.Load())[labels]
	if !ok {
		series = s.bindSeries(labels)
	}
	series.requests.Add(1)
	series.durations.Add(work.Seconds())
	if waited > 0 {
		s.observeWait(labels, waited)
	}
}

func (s *legSeries) observeWait(labels legLabels, waited time.Duration) {
	s.waits(s.timeLabels(labels)...).Add(waited.Seconds())
}

func (s *legSeries) bindSeries(labels legLabels) boundSeries {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := s.timeLabels(labels)
	count := append([]string{labels.method, labels.era.String(), labels.outcome}, values[2:]...)
	series := boundSeries{s.requests(count...), s.durations(values...)}
	table := maps.Clone(*s.found.Load())
	table[labels] = series
	s.found.Store(&table)
	return series
}

func (s *legSeries) timeLabels(labels legLabels) []string {
	values := []string{labels.method, labels.era.String()}
	if s.targets != nil {
		values = append(values, labels.target)
	}
	return values
}

// targetLabel returns "other" for unlisted targets: peers must not create series.
func (s *legSeries) targetLabel(target string) string {
	if s.targets == nil || target == "" {
		return ""
	}
	if s.targets[target] {
		return target
	}
	return otherLabel
}

const otherLabel = "other" // label value of everything else

// methodLabel returns "other" for methods outside the protocol.
func methodLabel(method string) string {
	switch method {
	case protocol.MethodDiscover, protocol.MethodListTools, protocol.MethodCallTool,
		protocol.MethodListPrompts, protocol.MethodGetPrompt,
		protocol.MethodListResources, protocol.MethodListResourceTemplates,
		protocol.MethodReadResource,
		protocol.MethodComplete, protocol.MethodListen,
		protocol.MethodInitialize, protocol.MethodPing, protocol.MethodSetLevel,
		protocol.MethodSubscribe, protocol.MethodUnsubscribe:
		return method
	}
	return otherLabel
}

const modulePath = "github.com/rondo-mcp/rondo"

// buildInfo returns the releases of this module and of Go, and the program's revision if recorded.
func buildInfo() []string {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Path == modulePath && info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, dependency := range info.Deps {
			if dependency.Path == modulePath {
				version = dependency.Version
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	return []string{version, runtime.Version(), revision}
}
