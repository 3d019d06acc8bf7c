#!/bin/sh
# Asks 'git baton verify --ci' of a commit, and keeps one comment of the pull request: a hidden marker finds it again.
# What comes from the repository reaches programs as files and quoted words alone; the shell reads none of it as a command.
set -eu
marker='<!-- git-baton summary -->'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

git cat-file -e "$BATON_REF^{commit}" 2>/dev/null || git fetch -q --depth=1 --end-of-options "$BATON_REMOTE" "$BATON_REF"
git baton fetch "$BATON_REMOTE"

status=0
git baton verify --ci --foreign -- "$BATON_REF" >"$folder/proof" || status=$?
cat "$folder/proof"
[ "$status" -le 1 ] || exit "$status"

if [ -n "$BATON_TRACK" ] && [ -n "$BATON_PULL" ]; then
	{
		printf '%s\n\n' "$marker"
		git baton summary -- "$BATON_TRACK"
		printf '\n```text\n'
		sed 's/```/` ` `/g' "$folder/proof"
		printf '```\n'
	} >"$folder/body"
	found=$(gh api --paginate "repos/$GH_REPO/issues/$BATON_PULL/comments" \
		--jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$marker\"))) | .id" | head -n 1)
	case $found in
	'') set -- POST "repos/$GH_REPO/issues/$BATON_PULL/comments" ;;
	*[!0-9]*) echo "gh answered with no number for a comment" >&2 && exit 1 ;;
	*) set -- PATCH "repos/$GH_REPO/issues/comments/$found" ;;
	esac
	# The token of a pull request from a fork may not write; what is known of the commit does not depend on it.
	gh api -X "$1" "$2" -F "body=@$folder/body" >/dev/null ||
		echo "warning: the comment was not written: does the job have 'pull-requests: write'?" >&2
fi
[ "$status" = 0 ] || [ "$BATON_REQUIRE" != true ] || exit 1
