//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

func startOwnGroup(cmd *exec.Cmd) {
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
}

func signalGroup(pid int, s syscall.Signal) error { return syscall.Kill(-pid, s) }
