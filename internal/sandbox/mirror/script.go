package mirror

// The scripts are for a POSIX shell. What they are given comes as arguments, never as a part of the script.

// setup makes the directories of a sandbox: base (empty for HOME), name. It says where they are, who commands are, and
// when its shell was started, in the unit of proc_pid_stat(5): every process of the sandbox is as young or younger.
const setup = `
for t in awk cat env find grep id sort tar xargs; do
	command -v "$t" >/dev/null 2>&1 || missing="$missing $t"
done
find / -maxdepth 0 -printf '' >/dev/null 2>&1 || missing="$missing find-of-GNU"
tar --version 2>/dev/null | grep -q GNU || missing="$missing tar-of-GNU"
test -r /proc/self/environ || missing="$missing /proc"
test -z "$missing" || { echo "missing:$missing" >&2; exit 3; }
base=${1:-$HOME}/$2
umask 077
mkdir -p "$base/home" "$base/tmp" && mkdir -m 755 "$base/ws" && cd "$base" && printf '%s\n%s\n%s\n%s\n%s\n' "$(pwd -P)" "$(id -u)" "$(id -g)" "$PATH" "$(awk '{ sub(/.*\)/, ""); print $20 }' /proc/$$/stat)"
`

// supervise starts one command and waits for it: nonce, one stream (1 or 0), directory, PATH, program, and what env is
// given. On stdout it says the command's process id or, after a "!", why it does not start; then the command's output;
// then the nonce with how it ended. On stderr it says the nonce at the end. Whoever holds these streams open later is
// not waited for. A subshell asks /proc who it is; one that is no process of its own lets another shell say it.
const supervise = `
nonce=$1 one=$2 dir=$3 path=$4 program=$5
shift 5
fail() { printf '!%s\n' "$1"; exit 127; }
env=$(command -v env) || fail 'the program env is missing on the other machine'
cd -- "$dir" 2>/dev/null || fail 'the directory does not exist on the other machine'
(PATH=$path; command -v "$program") >/dev/null 2>&1 || fail 'no such program in the template or image: use one that it has'
test "$one" = 0 || exec 2>&1
(
	read -r pid rest </proc/self/stat
	test "$pid" != "$$" || exec /bin/sh -c 'printf "%s\n" "$$"; exec "$@"' sh "$env" -i "$@"
	printf '%s\n' "$pid"
	exec "$env" -i "$@"
)
code=$?
test "$one" = 1 || printf %s "$nonce" >&2
exec 2>/dev/null
printf '%s %s\n' "$nonce" "$code"
times
`

// found is a function that lists the processes that carry the mark or descend from one that does, or from root. A
// machine may run hundreds of others: only the environment of those is looked at that are younger than the sandbox and
// not started by this script. Most commands leave none, and that ends here. The name of a process is up to 15 bytes
// of anything, also brackets and ends of lines: the record is on the line that has more fields than fit into a name.
const found = `
found() {
	young=$(LC_ALL=C grep -s '' /dev/null /proc/[0-9]*/stat | LC_ALL=C awk -v since="$since" -v self="$$" '
		{ rest = $0 }
		sub(/.*\)/, "", rest) && split(rest, f, " ") >= 20 && f[20] + 0 >= since + 0 && f[1] != "Z" && f[1] != "X" {
			split($0, a, "/")
			p[a[3]] = f[2]
		}
		END {
			for (i in p) {
				for (up = i; (up in p) && up != self && turn[i]++ < 99;) up = p[up]
				if (up == self) continue
				pairs = pairs " " i ":" p[i]
				files = files " /proc/" i "/environ"
			}
			print "young" pairs "|" files
		}')
	test -n "$young" || return 1
	test -n "${young#*|}" || return 0
	marked=$(LC_ALL=C grep -lsF -e "$mark" /dev/null ${young#*|})
	test -n "$marked" || test "$root" -gt 1 || return 0
	printf '%s\n' ${young%|*} $marked | awk -v root="$root" '
		BEGIN { if (root > 1) m[root] = 1 }
		/environ$/ { split($0, a, "/"); m[a[3]] = 1 }
		/:/ { split($0, a, ":"); p[a[1]] = a[2] }
		END {
			do { grew = 0; for (i in p) if (!(i in m) && (p[i] in m)) { m[i] = 1; grew = 1 } } while (grew)
			for (i in m) if (i in p) print i
		}' | sort -n
}
`

// sweep ends what found finds: first all are stopped, until no more appear, so that none escapes by forking.
// What was killed is waited for: one that lost its parent on the way is not found any more.
const sweep = `
wait_for() {
	turn=0
	while test "$turn" -lt 500; do
		turn=$((turn+1)) state=gone
		while read -r key value rest; do
			test "$key" = State: && state=$value && break
		done 2>/dev/null < "/proc/$1/status"
		case $state in gone|Z|X) return ;; esac
		sleep 0.02
	done
}
round=0
while test "$round" -lt 100; do
	round=$((round+1))
	now=$(found) || { echo 'processes cannot be listed' >&2; exit 4; }
	test -n "$now" || break
	kill -STOP $now 2>/dev/null
	again=$(found)
	test "$now" = "$again" || test "$round" -gt 50 || continue
	kill -KILL $again 2>/dev/null
	for n in $again; do wait_for "$n"; done
done
test "$round" -lt 100 || { echo 'processes do not end' >&2; exit 4; }
`

// list prints the tree below ws, each field ended by a NUL, and "end" as the last one.
const list = `
cd -- "$ws" || exit 5
find . -ignore_readdir_race -mindepth 1 -printf '%y\0%m\0%s\0%T@\0%C@\0%i\0%l\0%P\0' || exit 5
printf 'end\0'
`

const (
	// after ends what a command left and lists the tree: mark, root, since, ws. A variable that the machine exports would
	// put the mark into the environment of grep, so it is unset before.
	after = `unset mark; mark=$1 root=$2 since=$3 ws=$4` + found + sweep + list
	// clean ends all that carries a mark: mark, root, since.
	clean = `unset mark; mark=$1 root=$2 since=$3` + found + sweep
	// take carries out what was sent, and lists the tree: ws, archive, file of what is removed.
	take = `ws=$1 in=$2 gone=$3
cd -- "$ws" || exit 5
if test -s "$gone"; then xargs -0 rm -rf -- < "$gone" || exit 5; fi
tar -xpf "$in" --numeric-owner -C "$ws" || exit 5
rm -f -- "$in" "$gone"` + list
	// give packs files for the way back: ws, file of names, archive. A file that goes or grows meanwhile is seen by who
	// reads the archive.
	give = `cd -- "$1" || exit 5
tar --null --no-recursion --hard-dereference --ignore-failed-read --format=pax --pax-option=delete=atime,delete=ctime -T "$2" -cf "$3" 2>/dev/null
test "$?" -lt 2 || test -s "$3" || { echo 'tar wrote nothing' >&2; exit 5; }
rm -f -- "$2"`
	// forget removes files.
	forget = `rm -f -- "$@"`
	// processes lists the processes of a mark: mark, since. For each: number, line of stat, command line in hexadecimal.
	processes = `unset mark; mark=$1 root=0 since=$2` + found + `
getconf PAGESIZE 2>/dev/null || echo 4096
for n in $(found); do
	stat=$(tr '\n' ' ' < /proc/$n/stat 2>/dev/null) || continue
	printf '%s\n%s\n%s\n' "$n" "$stat" "$(head -c 4096 /proc/$n/cmdline 2>/dev/null | od -An -v -tx1 | tr -d ' \n')"
done
echo end`
	// signal sends a signal to one process of a mark, and may wait until it is gone: mark, since, process, signal, wait
	// (1 or 0).
	signal = `unset mark; mark=$1 root=0 since=$2 pid=$3 sig=$4 wait=$5` + found + `
found | grep -qx "$pid" || { echo none; exit 0; }
kill -s "$sig" "$pid" 2>/dev/null || { echo none; exit 0; }
round=0
while test "$wait" = 1 && test "$round" -lt 200 && found | grep -qx "$pid"; do round=$((round+1)); done
test "$round" -lt 200 && echo sent || echo stays`
)
