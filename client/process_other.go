//go:build !unix

package client

import (
	"errors"
	"os/exec"
	"syscall"
)

func startOwnGroup(*exec.Cmd) {}

func signalGroup(int, syscall.Signal) error { return errors.ErrUnsupported }
