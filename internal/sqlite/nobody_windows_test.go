package sqlite

import "os/exec"

func becomeNobody(*exec.Cmd) {}
