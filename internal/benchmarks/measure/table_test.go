package measure_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
)

// scripted is a case whose samples are known beforehand.
func scripted(row, peer string, m measure.Metric, values ...float64) measure.Case {
	i, group := 0, "group"
	if row == "alone" {
		group = "another group"
	}
	return measure.Case{Group: group, Row: row, Peer: peer,
		Run: func(time.Duration) (measure.Sample, error) {
			i++
			return measure.Sample{m: values[i-1]}, nil
		}}
}

// The machine is half as fast in the second round, which changes no ratio;
// what differs from the rest of its line is marked.
// Columns have the order of the group that they are in.
func TestTable(t *testing.T) {
	table, err := measure.Run([]measure.Case{
		scripted("alone", "ours", measure.Rate, 2000, 4000, 3000),
		scripted("alone", "base", measure.Rate, 1000, 2000, 1500),
		scripted("steady", "base", measure.CPU, 1000, 2000, 1000),
		scripted("steady", "ours", measure.CPU, 1500, 3000, 1500),
		scripted("wild", "base", measure.CPU, 1000, 1000, 1000),
		scripted("wild", "ours", measure.CPU, 500, 2000, 8000),
		scripted("exact", "ours", measure.Allocs, 29, 29, 29),
		scripted("large", "ours", measure.Memory, 1536, 1536, 1536),
	}, 3, 0, func(int, measure.Case) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	unsteady := table.Print(&b)
	const want = `
### another group

| | | ours | base | spread |
|---|---|---:|---:|---:|
| alone | flows/s | 3.00 k/s | 1.50 k/s (0.50×) | 0 % |

### group

| | | base | ours | spread |
|---|---|---:|---:|---:|
| steady | CPU | 1.00 µs | 1.50 µs (1.50×) | 0 % |
| wild | CPU | 1.00 µs | 2.00 µs (2.00×) | 188 % (!) |
| exact | allocs |  | 29 | 0 % |
| large | memory |  | 1.50 KiB | 0 % |
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := []string{"group: wild: CPU: 188 %"}; !slices.Equal(unsteady, want) {
		t.Errorf("got unsteady lines %q, want %q", unsteady, want)
	}
}

func TestRunEndsWithTheFirstError(t *testing.T) {
	wrong := errors.New("a wrong answer")
	op := measure.Op{Group: "group", Row: "row", Peer: "peer",
		Start: func() (func() error, func(), error) {
			return func() error { return wrong }, func() {}, nil
		}}
	if _, err := measure.Run([]measure.Case{op.Case()}, 1, time.Millisecond,
		func(int, measure.Case) error { return nil }); !errors.Is(err, wrong) {
		t.Errorf("got %v, want %v", err, wrong)
	}
}
