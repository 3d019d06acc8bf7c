# fish completion for git baton and git-baton. It belongs in conf.d: for git, fish reads git.fish alone. gitbaton: 3

function __git_baton_complete
	set -l words (commandline -opc)
	while set -q words[1]; and not string match -qr '(^|/)(baton|git-baton)$' -- $words[1]
		set -e words[1]
	end
	set -e words[1]
	set -l current (commandline -ct)
	for line in (git baton complete -- $words "$current" 2>/dev/null)
		if string match -q \tfiles -- $line
			__fish_complete_path "$current"
		else
			echo $line
		end
	end
end

complete -c git-baton -f -a '(__git_baton_complete)'
complete -c git -n '__fish_git_using_command baton' -f -a '(__git_baton_complete)'
