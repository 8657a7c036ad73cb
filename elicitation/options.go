package elicitation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	defaultTimeout         = 60 * time.Second // a common request timeout
	defaultSweepInterval   = 5 * time.Minute
	defaultMaxPending      = 100
	defaultMaxPerPrincipal = 16 // more than a person can look at
)

const (
	deliveryTimeout = 10 * time.Second // of a [FrameDeliverer]
	// A question extended by progress lasts at most minMaxTimeout, or Options.Timeout plus
	// maxExtension if that is more. The re-entry funnel has the same bound, and a gateway extends
	// the asking call likewise.
	minMaxTimeout = 10 * time.Minute
	maxExtension  = 5 * time.Minute

	retryAfter = 5 * time.Second // when a refused upstream may ask again

	maxSchemaBytes   = 100 << 10 // bytes of requestedSchema
	maxSchemaDepth   = 10        // nesting; a flat form needs five
	maxContentBytes  = 1 << 20   // bytes of an answer's content
	maxOutsideSchema = 64 << 10  // bytes beside the schema: message, URL, _meta
)

// In numeric fields 0 means the default. A negative MaxPending, MaxPerPrincipal or MinHumanTime
// disables it; any other negative number is an error of [New] that names the field.
type Options struct {
	// Timeout limits how long a client may take to answer. 0 means a minute. Progress restarts it,
	// for up to 5 minutes more than Timeout, or 10 minutes in all if that is longer. If the clients
	// belong to a server of this module, use the server's HumanTimeout; package roundtrip lists all
	// timeouts that affect a person.
	Timeout time.Duration
	// MinHumanTime is the least time in which a person can read a question, from its delivery. An
	// earlier decline or cancel is passed on, but logged and counted as unseen. 0 means 400 ms, or
	// none for clients in the same process; a negative value means none.
	MinHumanTime time.Duration
	// SweepInterval is the time between searches for calls whose host forgot End; the second search
	// that finds a call ends it. 0 means 5 minutes.
	SweepInterval time.Duration

	// MaxPending limits pending questions. 0 means 100; a negative value means no limit.
	MaxPending int
	// MaxPerPrincipal limits pending questions per principal and per session. 0 means 16; a
	// negative value means no limit. Anonymous callers share MaxPending, or three quarters of it
	// once a session with a principal has been attached.
	MaxPerPrincipal int

	// Validation decides about accepted content that violates the form. Zero is [ValidateWarn].
	Validation Validation
	// URLPolicy decides whether a client may be sent to a URL. An error refuses the question; its
	// text goes to the host, not upstream. Nil means [DefaultURLPolicy]. URLs with a user name, of
	// more than 8 KiB, with misleading characters, or of a scheme such as javascript are always
	// refused. Calls may overlap.
	URLPolicy func(ctx context.Context, visit URLRequest) error
	// AllowSecrets reports whether the upstream on a connection may ask for secrets in a form:
	// fields whose name or title has a word such as password, token or card number. If nil, such a
	// question is refused with [ReasonSecret]; use a URL to ask for a secret. Calls may overlap.
	AllowSecrets func(upstream UpstreamKey) bool
	// Redactor replaces texts of questions, and of errors that may quote one, in logs. Nil means
	// unchanged. The result is always escaped and cut. It must return promptly and not use the
	// router. Calls may overlap.
	Redactor func(message string) string

	// Subject returns the log field subject of an authenticated principal, for example p.Subject.
	// Nil means a digest, which correlates entries without a name. Calls may overlap.
	Subject func(p protocol.Principal) string
	// Log gets one entry per event. Nil: no log. A question's entries are written in order, under a
	// lock: the log must not call the router. See server/middleware: zaplog.New, sloglog.New.
	Log event.LogSink
	// Metrics gets the metrics, see prom.New of server/middleware. Nil: off. Routers may share it.
	Metrics event.MetricSink
}

// Validation decides about accepted content that violates the form.
type Validation int

const (
	ValidateWarn Validation = iota // pass the answer on and log the violation
	ValidateOff                    // do not check content
	// ValidateEnforce ends the question with an error, refuses forms whose schema cannot be
	// checked, and passes on only validated content: unknown members are removed and defaults
	// filled in. Emptied optional members are removed and get no default; optional numbers and
	// booleans sent as strings are converted.
	ValidateEnforce
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Timeout < 0:
		return o, errors.New("elicitation options: Timeout is negative")
	case o.SweepInterval < 0:
		return o, errors.New("elicitation options: SweepInterval is negative")
	case o.Validation < ValidateWarn || o.Validation > ValidateEnforce:
		return o, fmt.Errorf("elicitation options: Validation %d is unknown", o.Validation)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.SweepInterval = cmp.Or(o.SweepInterval, defaultSweepInterval)
	o.MaxPending = cmp.Or(o.MaxPending, defaultMaxPending)
	o.MaxPerPrincipal = cmp.Or(o.MaxPerPrincipal, defaultMaxPerPrincipal)
	if o.URLPolicy == nil {
		o.URLPolicy = DefaultURLPolicy
	}
	if o.Subject == nil {
		o.Subject = digestOf
	}
	return o, nil
}

func (o *Options) maxTimeout() time.Duration {
	return max(minMaxTimeout, o.Timeout+maxExtension)
}

// Environment variables that [OptionsFromEnv] reads.
const (
	envTimeout = "ELICITATION_TIMEOUT" // Options.Timeout
	// envMaxConcurrent sets Options.MaxPending, and MaxPerPrincipal in proportion: with 1000 it is
	// 160. With small numbers it is at least the smaller of its default and MaxPending.
	envMaxConcurrent   = "ELICITATION_MAX_CONCURRENT"
	envCleanupInterval = "ELICITATION_CLEANUP_INTERVAL" // Options.SweepInterval
)

// OptionsFromEnv returns the options that the environment sets. lookup is [os.LookupEnv] or a
// stand-in. Durations are in Go syntax ("90s", "2m") or whole seconds ("90"). An empty value counts
// as unset. An invalid, zero or negative value is an error that names the variable.
func OptionsFromEnv(lookup func(key string) (string, bool)) (Options, error) {
	var o Options
	for _, d := range []struct {
		key   string
		value *time.Duration
	}{{envTimeout, &o.Timeout}, {envCleanupInterval, &o.SweepInterval}} {
		text, set := lookup(d.key)
		if !set || text == "" {
			continue
		}
		v, err := parseDuration(text)
		if err != nil {
			return Options{}, fmt.Errorf("elicitation options: %s: %w", d.key, err)
		}
		*d.value = v
	}
	if text, set := lookup(envMaxConcurrent); set && text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n <= 0 {
			return Options{}, fmt.Errorf("elicitation options: %s: must be a number above 0, got %q",
				envMaxConcurrent, text)
		}
		o.MaxPending = int(n)
		o.MaxPerPrincipal = int(max(n*defaultMaxPerPrincipal/defaultMaxPending,
			min(n, defaultMaxPerPrincipal)))
	}
	return o, nil
}

const maxEnvSeconds = 1 << 31

func parseDuration(text string) (time.Duration, error) {
	var d time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds < maxEnvSeconds {
		d = time.Duration(seconds) * time.Second
	} else if d, err = time.ParseDuration(text); err != nil {
		return 0, fmt.Errorf(`must be a duration such as "90s" or "2m", got %q`, text)
	}
	if d <= 0 {
		return 0, fmt.Errorf("must be above 0, got %q", text)
	}
	return d, nil
}
