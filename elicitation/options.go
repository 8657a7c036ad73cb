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
	// defaultTimeout is how long a client may take to answer. It is what most
	// clients and servers wait for any request.
	defaultTimeout = 60 * time.Second
	// defaultSweepInterval is how often forgotten calls are looked for.
	defaultSweepInterval = 5 * time.Minute

	// defaultMaxPending is how many questions may be pending in all.
	defaultMaxPending = 100
	// defaultMaxPerPrincipal is how many of them may be one principal's: more
	// than a person can look at.
	defaultMaxPerPrincipal = 16
)

const (
	// deliveryTimeout is how long a [FrameDeliverer] may take. A stream
	// that does not take a frame of a few kilobytes within it is stuck.
	deliveryTimeout = 10 * time.Second
	// minMaxTimeout is how long a question that its client extends may last at least: the
	// bound that the re-entry funnel has for a person, too.
	minMaxTimeout = 10 * time.Minute
	// maxExtension is how much longer than Options.Timeout such a question may last, where that
	// is more: a gateway lets the call that asks run as much longer than its question.
	maxExtension = 5 * time.Minute

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

// Options configure a [Router]. The zero value works and is the recommended
// setting but for Log and Metrics, without which nothing is recorded.
//
// 0 is the default of every number. A negative limit on what may be pending means that there
// is no limit, a negative MinHumanTime that there is none;
// any other negative number is an error of [New] that names the field.
type Options struct {
	// Timeout is how long a client may take to answer, 0: a minute.
	// Progress that the client reports starts it anew, until 5 minutes more than Timeout, or 10
	// minutes if that is longer, have passed since the question was created. Where the questions
	// go on to clients of a server of this module, set it to the HumanTimeout of that server;
	// package roundtrip lists all clocks that may run out on a person.
	Timeout time.Duration
	// MinHumanTime is the least time in which a person can have read a question, from
	// its delivery: a decline or cancel that comes sooner goes on to the upstream, and
	// is logged and counted as unseen. 0: 400 ms, but none for clients in the same
	// process; negative: none.
	MinHumanTime time.Duration
	// SweepInterval is the time between two searches for calls without End, 0:
	// 5 minutes. One that was over at two of them is reported and ended.
	SweepInterval time.Duration

	// MaxPending is how many questions may be pending at once. 0: 100, negative: no limit.
	MaxPending int
	// MaxPerPrincipal is how many of them may be one principal's, and one session's. 0: 16,
	// negative: no limit. Anonymous callers cannot be told apart: together they may have
	// MaxPending, or all but a quarter of it once a session with a principal has been attached,
	// beside what their sessions may have.
	MaxPerPrincipal int

	// Validation says what becomes of accepted content that does not fit the
	// form. The zero value is [ValidateWarn].
	Validation Validation
	// URLPolicy decides whether a client may be sent to a URL; an error refuses
	// the question, and its text goes to the host and not to the upstream. Nil:
	// [DefaultURLPolicy]. URLs that carry a user name, are longer than 8 KiB, have
	// characters that people read differently from programs or are of a scheme
	// such as javascript are refused whatever it says. Calls may overlap.
	URLPolicy func(ctx context.Context, visit URLRequest) error
	// AllowSecrets reports whether the upstream on a connection may ask, in a form, for what
	// looks like a secret: a field whose name or title has a word such as password, token
	// or card number. Nil: none may, and the question is refused with [ReasonSecret]; a
	// URL is the way to ask for a secret. Calls may overlap.
	AllowSecrets func(upstream UpstreamKey) bool
	// Redactor makes the text of a question fit for logs, and that of an error that may quote one.
	// Nil leaves it as it is. The text that it returns is escaped and cut in any case. It must
	// return promptly and not use the router. Calls may overlap.
	Redactor func(message string) string

	// Subject names an authenticated principal in the log, as the field subject, for example by
	// p.Subject. Nil: a digest of the principal, by which what one person was asked can be found
	// and which names nobody. Calls may overlap.
	Subject func(p protocol.Principal) string
	// Log gets one entry for each event, nil: none. Entries about a question come in the order of
	// its events, while nothing else happens to it, so the log must not call the router. zaplog.New
	// and sloglog.New of server/middleware make one.
	Log event.LogSink
	// Metrics gets the metrics, nil: none, as prom.New of server/middleware makes it. Several
	// routers may share it; they then add up in the same series.
	Metrics event.MetricSink
}

// Validation says what becomes of accepted content that does not fit the form.
type Validation int

// The kinds of validation.
const (
	// ValidateWarn passes the answer on and says so in the log.
	ValidateWarn Validation = iota
	// ValidateOff does not look at content.
	ValidateOff
	// ValidateEnforce ends the question with an error, refuses forms whose schema
	// cannot be checked, and passes on only what has been validated: members that
	// the form does not have are left out, and defaults filled in. Of members that are not
	// required, those that the person has emptied are left out and get no default, and a
	// string that spells a number or a boolean is passed on as that.
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
	// envTimeout sets Options.Timeout.
	envTimeout = "ELICITATION_TIMEOUT"
	// envMaxConcurrent sets Options.MaxPending, and MaxPerPrincipal in proportion: 1000 sets it
	// to 160. It does not become less than its default, or than MaxPending where that is smaller
	// still.
	envMaxConcurrent = "ELICITATION_MAX_CONCURRENT"
	// envCleanupInterval sets Options.SweepInterval.
	envCleanupInterval = "ELICITATION_CLEANUP_INTERVAL"
)

// OptionsFromEnv returns options with what the environment sets; everything else
// is left at its zero value. lookup is [os.LookupEnv], or a stand-in. Durations
// are written as Go writes them ("90s", "2m") or as whole seconds ("90");
// numbers in decimal. An empty value counts as unset. A value that cannot be
// used, zero and negative ones included, is an error that names the variable.
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
