// Bench compares servers and clients and prints a table of medians, in Markdown.
//
//	go run ./internal/benchmarks/cmd/bench                     # all of it: some minutes
//	go run ./internal/benchmarks/cmd/bench -short              # a glance: less than a minute
//	go run ./internal/benchmarks/cmd/bench -groups handler,load -rounds 20
//
// Every peer is first asked whether it answers as it should. Then the cases run
// round by round, one peer after the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/cases"
	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

func main() {
	rounds := flag.Int("rounds", 10, "how many `times` each case is measured")
	d := flag.Duration("time", 100*time.Millisecond, "how `long` each time; load takes ten times as long")
	short := flag.Bool("short", false, "three rounds of 30 ms, for a glance")
	groups := flag.String("groups", strings.Join(cases.Groups(), ","), "the groups of rows to measure, separated by `commas`")
	serve := flag.String("serve", "", "be the server of this `peer` on a port of its own until the standard input ends; load starts it")
	flag.Parse()
	if *short {
		*rounds, *d = 3, 30*time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *serve != "" {
		err = serveOne(*serve)
	} else {
		err = compare(ctx, strings.Split(*groups, ","), *rounds, *d)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func serveOne(name string) error {
	for _, s := range peers.Servers() {
		if s.Name == name {
			return drive.Serve(s.New(), os.Stdin, os.Stdout)
		}
	}
	return fmt.Errorf("no such peer: %q", name)
}

// progress returns a function that rewrites a line of the terminal, if there is one.
func progress() func(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(string, ...any) {}
	}
	return func(format string, args ...any) { fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...) }
}

func compare(ctx context.Context, groups []string, rounds int, d time.Duration) error {
	for _, s := range peers.Servers() {
		if err := wire.Check(drive.NewHandler(s.New()).Do, s.Seals, wire.MaxSurvey); err != nil {
			return fmt.Errorf("%s answers wrongly: %w", s.Name, err)
		}
	}
	for _, r := range peers.Retrofits() {
		if err := wire.Check(drive.NewHandler(r.With()).Do, true, peers.MaxRetrofitSurvey); err != nil {
			return fmt.Errorf("%s with rondo answers wrongly: %w", r.Name, err)
		}
	}
	list, cleanup, err := cases.All(groups)
	if err != nil {
		return err
	}
	defer cleanup()
	began, show := time.Now(), progress()
	table, err := measure.Run(list, rounds, d, func(round int, c measure.Case) error {
		show("%d/%d %s: %s: %s", round+1, rounds, c.Group, c.Row, c.Peer)
		return ctx.Err()
	})
	show("")
	if err != nil {
		return err
	}
	fmt.Println(machine())
	fmt.Printf("%d rounds of %s, %s in all; medians, in brackets the ratio to the first column that has the row.\n", rounds, d, time.Since(began).Round(time.Second))
	for _, line := range table.Print(os.Stdout) {
		fmt.Fprintf(os.Stderr, "bench: unsteady, run again on a quieter machine or with more rounds: %s\n", line)
	}
	return nil
}
