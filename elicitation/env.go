package elicitation

import (
	"fmt"
	"strconv"
	"time"
)

// The environment variables that [OptionsFromEnv] reads.
const (
	// EnvTimeout sets Options.Timeout.
	EnvTimeout = "ELICITATION_TIMEOUT"
	// EnvMaxConcurrent sets Options.MaxPending.
	EnvMaxConcurrent = "ELICITATION_MAX_CONCURRENT"
	// EnvCleanupInterval sets Options.SweepInterval.
	EnvCleanupInterval = "ELICITATION_CLEANUP_INTERVAL"
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
	}{{EnvTimeout, &o.Timeout}, {EnvCleanupInterval, &o.SweepInterval}} {
		text, _ := lookup(d.key)
		if text == "" {
			continue
		}
		v, err := parseDuration(text)
		if err != nil {
			return Options{}, fmt.Errorf("elicitation options: %s: %w", d.key, err)
		}
		*d.value = v
	}
	if text, _ := lookup(EnvMaxConcurrent); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n <= 0 {
			return Options{}, fmt.Errorf("elicitation options: %s: must be a number above 0, got %q", EnvMaxConcurrent, text)
		}
		o.MaxPending = int(n)
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
