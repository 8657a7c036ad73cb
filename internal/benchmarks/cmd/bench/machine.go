package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine says where the numbers are from: the processor, Go, and the commit.
func machine() string {
	return fmt.Sprintf("%s, %d processors, %s %s/%s, commit %s", processor(), runtime.NumCPU(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, commit())
}

func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, found := strings.Cut(line, ":"); found &&
			strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// commit is the short hash, with a plus if files differ from it.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	hash := strings.TrimSpace(string(out))
	if changes, err := exec.Command("git", "status", "--porcelain", "-uno").Output(); err != nil ||
		len(changes) > 0 {
		hash += "+"
	}
	return hash
}
