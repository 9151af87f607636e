package sandboxtest

import "syscall"

const keyctl = syscall.SYS_KEYCTL
