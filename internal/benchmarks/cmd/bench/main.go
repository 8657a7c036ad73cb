// Bench compares servers and clients and prints a table of medians, in Markdown.
//
//	go run ./internal/benchmarks/cmd/bench                     # all of it: some minutes
//	go run ./internal/benchmarks/cmd/bench -short              # a glance: less than a minute
//	go run ./internal/benchmarks/cmd/bench -groups handler,load -rounds 20
//
// Every peer is first asked whether it answers as it should. Then the cases of a
// group run round by round, one peer after the other. Each group has a process of
// its own: what one leaves behind in memory would be the others' to collect.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

func main() {
	rounds := flag.Int("rounds", 10, "how many `times` each case is measured")
	d := flag.Duration("time", 100*time.Millisecond,
		"how `long` each time; load takes ten times as long")
	short := flag.Bool("short", false, "three rounds of 30 ms, for a glance")
	groups := flag.String("groups", strings.Join(measure.Groups(), ","),
		"the groups of rows to measure, separated by `commas`")
	part := flag.Bool("part", false,
		"measure in this process, and print the tables alone; started once for each group")
	serve := flag.String("serve", "",
		"be the server of this `peer` on a port of its own until the standard input ends; load "+
			"starts it")
	flag.Parse()
	if *short {
		*rounds, *d = 3, 30*time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *serve != "" {
		err = serveOne(*serve)
	} else if list := strings.Split(*groups, ","); *part {
		err = compare(ctx, list, *rounds, *d)
	} else {
		err = compareAll(ctx, list, *rounds, *d)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func serveOne(name string) error {
	for _, s := range measure.Servers() {
		if s.Name == name {
			return wire.Serve(s.New(), os.Stdin, os.Stdout)
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

// compareAll has each group measured by a process of its own.
func compareAll(ctx context.Context, groups []string, rounds int, d time.Duration) error {
	if err := check(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Println(machine())
	fmt.Printf("%d rounds of %s; medians, in brackets the ratio to the first column that has the "+
		"row.\n", rounds, d)
	began := time.Now()
	for _, group := range groups {
		cmd := exec.CommandContext(ctx, self, "-part", "-groups", group, "-rounds",
			strconv.Itoa(rounds), "-time", d.String())
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
	}
	fmt.Fprintf(os.Stderr, "bench: %s in all\n", time.Since(began).Round(time.Second))
	return nil
}

// check asks every peer whether it answers as it should.
func check() error {
	for _, s := range measure.Servers() {
		if err := wire.Check(wire.NewHandler(s.New()).Do, s.Seals); err != nil {
			return fmt.Errorf("%s answers wrongly: %w", s.Name, err)
		}
	}
	return nil
}

func compare(ctx context.Context, groups []string, rounds int, d time.Duration) error {
	list, err := measure.All(groups)
	if err != nil {
		return err
	}
	show := progress()
	table, err := measure.Run(list, rounds, d, func(round int, c measure.Case) error {
		show("%d/%d %s: %s: %s", round+1, rounds, c.Group, c.Row, c.Peer)
		return ctx.Err()
	})
	show("")
	if err != nil {
		return err
	}
	for _, line := range table.Print(os.Stdout) {
		fmt.Fprintf(os.Stderr, "bench: unsteady, run again on a quieter machine or with more "+
			"rounds: %s\n", line)
	}
	return nil
}

// machine says where the numbers are from: the processor, Go, and the commit, with a plus if files
// differ from it.
func machine() string {
	processor, commit := "unknown processor", "unknown"
	info, _ := os.ReadFile("/proc/cpuinfo")
	if m := regexp.MustCompile(`model name\s*:\s*(.*)`).FindSubmatch(info); m != nil {
		processor = string(m[1])
	}
	out, err := exec.Command("git", "describe", "--always", "--exclude=*", "--dirty=+").Output()
	if err == nil {
		commit = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%s, %d processors, %s %s/%s, commit %s", processor, runtime.NumCPU(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, commit)
}
