package measure

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxSpread is the spread above which a comparison should be repeated: its
// middle half then covers more than a quarter of the median.
const MaxSpread = 0.25

// A Table holds samples by row, metric and peer, in the order in which they
// came.
type Table struct {
	groups []string
	peers  map[string][]string // by group: its columns
	lines  []*line
}

type line struct {
	group, row string
	metric     Metric
	values     map[string][]float64 // by peer, one for each round
}

func newTable() *Table { return &Table{peers: map[string][]string{}} }

func (t *Table) add(c Case, s Sample) {
	if !slices.Contains(t.groups, c.Group) {
		t.groups = append(t.groups, c.Group)
	}
	if !slices.Contains(t.peers[c.Group], c.Peer) {
		t.peers[c.Group] = append(t.peers[c.Group], c.Peer)
	}
	// in this order
	for _, m := range []Metric{CPU, Allocs, Bytes, Rate, P50, P99, Memory} {
		if value, ok := s[m]; ok {
			l := t.line(c.Group, c.Row, m)
			l.values[c.Peer] = append(l.values[c.Peer], value)
		}
	}
}

func (t *Table) line(group, row string, m Metric) *line {
	for _, l := range t.lines {
		if l.group == group && l.row == row && l.metric == m {
			return l
		}
	}
	l := &line{group, row, m, map[string][]float64{}}
	t.lines = append(t.lines, l)
	return l
}

// Print writes a Markdown table for each group: medians, in brackets the
// ratios to the first peer that the line has, and the spread. It returns the
// lines whose spread is too large to be quoted.
func (t *Table) Print(w io.Writer) (unsteady []string) {
	for _, group := range t.groups {
		columns := t.peers[group]
		fmt.Fprintf(w, "\n### %s\n\n| | | %s | spread |\n|---|---|%s---:|\n", group,
			strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
		last := ""
		for _, l := range t.lines {
			if l.group != group {
				continue
			}
			row := l.row
			if row == last {
				row = ""
			}
			last = l.row
			fmt.Fprintf(w, "| %s | %s |", row, l.metric)
			base := l.base(columns)
			for _, peer := range columns {
				fmt.Fprintf(w, " %s |", l.cell(peer, base))
			}
			spread, mark := l.spread(columns, base), ""
			if spread > MaxSpread && l.metric.noisy() {
				mark = " (!)"
				unsteady = append(unsteady, fmt.Sprintf("%s: %s: %s: %.0f %%", group, l.row,
					l.metric, 100*spread))
			}
			fmt.Fprintf(w, " %.0f %%%s |\n", 100*spread, mark)
		}
	}
	return unsteady
}

// base is the peer that the others of a line are compared with.
func (l *line) base(columns []string) string {
	for _, peer := range columns {
		if l.values[peer] != nil {
			return peer
		}
	}
	return ""
}

func (l *line) cell(peer, base string) string {
	values := l.values[peer]
	if values == nil {
		return ""
	}
	text := l.metric.format(median(values))
	if ratios := l.ratios(peer, base); peer != base && ratios != nil {
		text += fmt.Sprintf(" (%s×)", significant(median(ratios)))
	}
	return text
}

// ratios are those of the values of each round: what slows the whole machine
// down for a while does not change them.
func (l *line) ratios(peer, base string) []float64 {
	var ratios []float64
	for i, value := range l.values[peer] {
		if i >= len(l.values[base]) || l.values[base][i] <= 0 {
			return nil
		}
		ratios = append(ratios, value/l.values[base][i])
	}
	return ratios
}

// spread is the largest of those of the peers: the width of the middle half,
// divided by the median, of the ratios, or of the values if there is one peer.
func (l *line) spread(columns []string, base string) float64 {
	worst := 0.0
	for _, peer := range columns {
		values := l.ratios(peer, base)
		if peer == base {
			if len(l.values) > 1 {
				continue
			}
			values = l.values[peer]
		}
		if m := median(values); m > 0 {
			worst = max(worst, (quantile(values, .75)-quantile(values, .25))/m)
		}
	}
	return worst
}

func median(values []float64) float64 { return quantile(values, .5) }

// quantile interpolates between neighbours.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// format prints a value with its unit.
func (m Metric) format(v float64) string {
	scaled := func(step float64, units ...string) string {
		for len(units) > 1 && (v >= step || v <= -step) {
			v, units = v/step, units[1:]
		}
		return significant(v) + " " + units[0]
	}
	switch m {
	case CPU, P50, P99:
		return scaled(1000, "ns", "µs", "ms", "s")
	case Bytes, Memory:
		return scaled(1024, "B", "KiB", "MiB")
	case Rate:
		return scaled(1000, "/s", "k/s")
	}
	return fmt.Sprintf("%.0f", v)
}

// significant prints three digits, or all before the point.
func significant(v float64) string {
	switch {
	case v >= 100 || v <= -100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
