#!/usr/bin/env bash
# Runs the protocol's official conformance suite against everything and everything-client beside this file, and
# examples/skills, and fails unless every check on the lists beside this file passes. See main.go.
#
#	run.sh [-n COUNT] [-u] [-s URL] [LEG...]
#
# -n repeats, against one and the same server process; -u writes the lists anew; -s takes a server that runs already; without
# LEG all legs run. It needs Go, npm and a registry that npm can reach, writes nothing into the tree (-u aside), and keeps the suite in the user's cache directory.
# A step that cannot run is a step that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec </dev/null

# The suite does not start on Node 20, which many machines have; npm can bring its own.
readonly node_version=22.23.3
readonly suite_version=0.2.0-alpha.12
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/rondo-conformance/$suite_version-node-$node_version

readonly lists=internal/conformance
# Without tasks-status-notifications, which the suite itself skips.
readonly tasks_scenarios=(tasks-{lifecycle,capability-negotiation,wire-fields,request-state-removal,mrtr-input,request-headers,dispatch-and-envelope,required-task-error,mrtr-composition})
readonly skills_scenarios=(sep-2640-skills-{enumeration,manifest,directory})
declare -A urls=() servers=() # by the name of the program

# What was collected stays for whoever asks why, unless nothing failed.
finish() {
	local status=$?
	stop_servers || true
	((status != 0)) || rm -rf "$work"
}

fail() { printf 'run.sh: %s\n' "$*" >&2; exit 1; }

# suite ARGS... runs the suite. It swallows the errors of its own HTTP client; the log of the run is to have them.
suite() {
	NODE_DEBUG=fetch "$cache/node_modules/node/bin/node" "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" "$@"
}

# Fetched aside and moved, so that what is there is complete.
install_suite() {
	if [[ ! -d $cache ]]; then
		command -v npm >/dev/null || fail 'npm is needed to fetch the suite'
		mkdir -p "${cache%/*}"
		local fresh
		fresh=$(mktemp -d "$cache.XXXXXX")
		npm install --prefix "$fresh" --no-audit --no-fund --loglevel=error \
			"node@$node_version" "@modelcontextprotocol/conformance@$suite_version" >&2 ||
			{ rm -rf "$fresh"; fail 'npm could not fetch the suite'; }
		mv "$fresh" "$cache"
	fi
	[[ $(suite --version) == "$suite_version" ]] || fail "the suite in $cache does not run; remove it to fetch it again"
}

# start_server NAME starts a program of $work. It says where it listens once it does.
start_server() {
	[[ -z ${urls[$1]-} ]] || return 0
	: >"$work/url" # read below, perhaps before the server has begun
	"$work/$1" -http 127.0.0.1:0 >"$work/url" 2>"$work/$1.log" &
	servers[$1]=$!
	for ((i = 0; i < 100; i++)); do
		urls[$1]=$(<"$work/url")
		[[ -z ${urls[$1]} ]] || return 0
		kill -0 "${servers[$1]}" 2>/dev/null || break
		sleep 0.1
	done
	fail "$1 did not start: $(<"$work/$1.log")"
}

stop_servers() {
	local name pid status ended=0
	for name in "${!servers[@]}"; do
		pid=${servers[$name]} status=0
		unset "servers[$name]"
		kill "$pid" 2>/dev/null || true
		wait "$pid" || status=$?
		((status == 0)) || { printf 'run.sh: %s ended with status %d:\n%s\n' "$name" "$status" "$(<"$work/$name.log")" >&2; ended=1; }
	done
	return "$ended"
}

# run LEG NAME runs one leg and keeps the results under NAME. The suite's own status does not count: it is lenient with
# warnings and with what it does not score, and the lists are not.
run() {
	local leg=$1 name=$2
	local out=$work/results/$leg/$name log=$work/$leg-$name.log revision=${leg#*-}
	local url=${urls[everything]}
	[[ $leg != server-skills ]] || url=${urls[skills]}
	mkdir -p "$out"
	case $leg in
	server-tasks | server-skills) # of extensions: not scored, so each must be named
		local -n scenarios=${leg#server-}_scenarios
		for scenario in "${scenarios[@]}"; do
			suite server --url "$url" --scenario "$scenario" --force --output-dir "$out"
		done ;;
	server-*) suite server --url "$url" --requirements "$revision" --output-dir "$out" ;;
	client-backcompat | client-extensions) suite client --command "$client" --suite "$revision" --output-dir "$out" ;;
	client-*) suite client --command "$client" --requirements "$revision" --output-dir "$out" ;;
	esac >"$log" 2>&1 || true
	[[ -n $(ls -A "$out") ]] || fail "the suite wrote no results: $(tail -n 20 "$log")"
}

count=1
update=()
while getopts n:us: option; do
	case $option in
	n) count=$OPTARG ;;
	u) update=(-update) ;;
	s) urls[everything]=$OPTARG urls[skills]=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[[ $count =~ ^[1-9][0-9]*$ ]] || fail "-n $count: must be a number"
if (($# == 0)); then # every leg that has a list
	set -- "$lists"/*.txt
	set -- "${@##*/}"
fi
legs=("${@%.txt}")
for leg in "${legs[@]}"; do [[ -f $lists/$leg.txt ]] || fail "there is no leg $leg"; done

work=$(mktemp -d)
trap finish EXIT
printf 'results and logs, kept unless all passes: %s\n' "$work" >&2
install_suite
go build -o "$work/" ./$lists/everything ./$lists/everything-client ./examples/skills ./$lists
client=$work/everything-client
start_server everything
start_server skills
for ((n = 1; n <= count; n++)); do
	for leg in "${legs[@]}"; do run "$leg" "run-$n"; done
done

# Once more without a subject: nothing may pass.
stop_servers
urls=([everything]=http://127.0.0.1:9/mcp [skills]=http://127.0.0.1:9/mcp) # where nobody is
client=false
for leg in "${legs[@]}"; do run "$leg" control; done

"$work/conformance" ${update[@]+"${update[@]}"} "$lists" "$work/results"
