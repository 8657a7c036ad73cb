// Verdict judges what the conformance suite reported, see package conformance.
//
//	verdict [-update] LISTS RESULTS
//
// LISTS is the directory of the lists, LEG.txt for each leg. RESULTS holds what
// the suite wrote: LEG/run-N for each run and LEG/control for the run without a
// subject. The last line of output is the sum; the status is 1 unless nothing
// failed.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rondo-mcp/rondo/internal/conformance"
)

func main() {
	update := flag.Bool("update", false, "write the lists anew from the first run before judging")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: verdict [-update] LISTS RESULTS")
		os.Exit(2)
	}
	failed, err := judge(flag.Arg(0), flag.Arg(1), *update)
	if err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// judge prints the verdict on every leg and returns the number of failures.
func judge(lists, results string, update bool) (failed int, err error) {
	legs, err := filepath.Glob(filepath.Join(results, "*"))
	if err != nil {
		return 0, err
	}
	if len(legs) == 0 {
		return 0, fmt.Errorf("%s holds no results", results)
	}
	passed := 0
	for _, dir := range legs {
		l := leg{name: filepath.Base(dir), dir: dir}
		if err := l.load(lists, update); err != nil {
			return 0, err
		}
		if err := l.judge(); err != nil {
			return 0, err
		}
		passed, failed = passed+l.passed, failed+l.failed
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed, nil
}

// A leg is one side of one revision.
type leg struct {
	name, dir      string
	list           *conformance.List
	passed, failed int
}

// load reads the list of the leg, after writing it anew if it is to be updated.
func (l *leg) load(lists string, update bool) error {
	file := filepath.Join(lists, l.name+".txt")
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if l.list, err = conformance.ParseList(bytes.NewReader(raw)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !update {
		return nil
	}
	results, err := l.read("run-1")
	if err != nil {
		return err
	}
	l.list.Update(results)
	return os.WriteFile(file, l.list.Text(), 0o644)
}

func (l *leg) read(run string) (conformance.Results, error) {
	results := os.DirFS(filepath.Join(l.dir, run))
	return conformance.ReadResults(results, strings.HasPrefix(l.name, "server-"))
}

// judge prints a line for each run and for the control, and what failed.
func (l *leg) judge() error {
	runs, err := filepath.Glob(filepath.Join(l.dir, "run-*"))
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s holds no runs", l.dir)
	}
	for n := range runs {
		run := fmt.Sprintf("run-%d", n+1)
		results, err := l.read(run)
		if err != nil {
			return err
		}
		l.report(run, "checks", l.list.Judge(results))
	}
	results, err := l.read("control")
	if err != nil {
		return err
	}
	l.report("control", "scenarios fail without a subject", l.list.JudgeControl(results))
	return nil
}

func (l *leg) report(run, what string, v conformance.Verdict) {
	fmt.Printf("%s %s: %d %s, %d failed\n", l.name, run, v.Passed, what, len(v.Failed))
	for _, failure := range v.Failed {
		fmt.Printf("    %s\n", failure)
	}
	l.passed += v.Passed
	l.failed += len(v.Failed)
}
