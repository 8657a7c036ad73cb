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

// The defaults of [Options].
const (
	defaultTimeout         = 60 * time.Second // as most clients and servers wait for a request
	defaultSweepInterval   = 5 * time.Minute
	defaultMaxPending      = 100
	defaultMaxPerPrincipal = 16 // more than a person can look at
)

const (
	// deliveryTimeout bounds a [FrameDeliverer]: after it the stream is stuck.
	deliveryTimeout = 10 * time.Second
	// A question whose timeout its client restarts lasts minMaxTimeout at most, or maxExtension
	// longer than Options.Timeout if that is more. The re-entry funnel has the same bound for a
	// person, and a gateway gives the call that asks the same extension.
	minMaxTimeout = 10 * time.Minute
	maxExtension  = 5 * time.Minute

	// retryAfter is when a refused upstream may ask again.
	retryAfter = 5 * time.Second

	// maxSchemaBytes is the largest requestedSchema, in bytes.
	maxSchemaBytes = 100 << 10
	// maxSchemaDepth is how deep it may nest. A flat form needs five.
	maxSchemaDepth = 10
	// maxContentBytes is the largest content of an answer, in bytes.
	maxContentBytes = 1 << 20
	// maxOutsideSchema bounds what a question holds beside the schema, in bytes: a
	// message that people read, a URL, and _meta.
	maxOutsideSchema = 64 << 10
)

// Options configure a [Router]. The zero value is the recommended setting except for Log and
// Metrics, without which nothing is recorded.
//
// 0 is the default of every number. A negative MaxPending, MaxPerPrincipal or MinHumanTime disables
// it; any other negative number is an error of [New] that names the field.
type Options struct {
	// Timeout is how long a client may take to answer. 0: a minute. Progress of the client restarts
	// it, until 5 minutes more than Timeout, or 10 minutes if that is longer, have passed since the
	// question was created. If the clients are those of a server of this module, set it to the
	// HumanTimeout of that server; package roundtrip lists all timeouts that affect a person.
	Timeout time.Duration
	// MinHumanTime is the least time in which a person can have read a question, from its delivery.
	// An earlier decline or cancel is passed on, and logged and counted as unseen. 0: 400 ms, but
	// none for clients in the same process; negative: none.
	MinHumanTime time.Duration
	// SweepInterval is the time between two searches for calls without End. 0: 5 minutes. A call
	// that was over at two searches is reported and ended.
	SweepInterval time.Duration

	// MaxPending is how many questions may be pending at once. 0: 100, negative: no limit.
	MaxPending int
	// MaxPerPrincipal is how many of them may belong to one principal, and to one session. 0: 16,
	// negative: no limit. Anonymous callers cannot be distinguished: together they may have
	// MaxPending, or three quarters of it once a session with a principal has been attached.
	MaxPerPrincipal int

	// Validation decides about accepted content that violates the form. The zero value is
	// [ValidateWarn].
	Validation Validation
	// URLPolicy decides whether a client may be sent to a URL. An error refuses the question; its
	// text goes to the host and not to the upstream. Nil: [DefaultURLPolicy]. URLs with a user
	// name, of more than 8 KiB, with characters that people read differently from programs, or of a
	// scheme such as javascript are always refused. Calls may overlap.
	URLPolicy func(ctx context.Context, visit URLRequest) error
	// AllowSecrets reports whether the upstream on a connection may ask, in a form, for what looks
	// like a secret: a field whose name or title has a word such as password, token or card number.
	// Nil: the question is refused with [ReasonSecret]; use a URL to ask for a secret. Calls may
	// overlap.
	AllowSecrets func(upstream UpstreamKey) bool
	// Redactor replaces the text of a question, and of an error that may quote one, in logs. Nil:
	// unchanged. The result is always escaped and cut. It must return promptly and not use the
	// router. Calls may overlap.
	Redactor func(message string) string

	// Subject returns the field subject of an authenticated principal in the log, for example
	// p.Subject. Nil: a digest of the principal, which correlates entries without a name. Calls may
	// overlap.
	Subject func(p protocol.Principal) string
	// Log gets one entry for each event. Nil: none. Entries about a question are written in order,
	// with a lock held, so the log must not call the router. zaplog.New and sloglog.New of
	// server/middleware make one.
	Log event.LogSink
	// Metrics gets the metrics. Nil: none. prom.New of server/middleware makes one. Routers that
	// share it add up in the same series.
	Metrics event.MetricSink
}

// Validation decides about accepted content that violates the form.
type Validation int

// The kinds of validation.
const (
	// ValidateWarn passes the answer on and logs the violation.
	ValidateWarn Validation = iota
	// ValidateOff does not look at content.
	ValidateOff
	// ValidateEnforce ends the question with an error, refuses forms whose schema cannot be
	// checked, and passes on only validated content: unknown members are removed and defaults
	// filled in. Optional members that the person has emptied are removed and get no default, and
	// optional numbers and booleans that were sent as strings are converted.
	ValidateEnforce
)

// withDefaults returns o with its defaults filled in.
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

// maxTimeout is how long a question may last that its client extends.
func (o *Options) maxTimeout() time.Duration {
	return max(minMaxTimeout, o.Timeout+maxExtension)
}

// The environment variables that [OptionsFromEnv] reads.
const (
	envTimeout = "ELICITATION_TIMEOUT" // Options.Timeout
	// envMaxConcurrent sets Options.MaxPending, and MaxPerPrincipal in proportion: 1000 sets it
	// to 160, and small numbers to no less than the smaller of its default and MaxPending.
	envMaxConcurrent   = "ELICITATION_MAX_CONCURRENT"
	envCleanupInterval = "ELICITATION_CLEANUP_INTERVAL" // Options.SweepInterval
)

// OptionsFromEnv returns the options that the environment sets. lookup is [os.LookupEnv] or a
// stand-in. Durations are in the syntax of Go ("90s", "2m") or in whole seconds ("90"). An empty
// value counts as unset. An invalid value, zero and negative ones included, is an error that names
// the variable.
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

// maxEnvSeconds keeps a number of seconds within what a duration can hold.
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
