"""What the labs of a course on statistics ask: `check("standardize", standardize)`."""

from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    checker,
    edit,
    good_manners,
    normal,
    same_numbers,
)


def standardize(table):
    """Give every column of a table the mean 0 and the standard deviation 1."""
    return (table - table.mean(0)) / table.std(0)


def correlation(table):
    """Return the correlations between the columns of a table."""
    z = standardize(table)
    return z.T @ z / (len(table) - 1)


def _tables(generator):
    """Yield tables of different sizes whose columns differ in place and scale."""
    for rows, columns in ((7, 3), (5, 2)):
        mean, scale = normal(generator, 2, columns)
        table = mean + (1 + scale.abs()) * normal(generator, rows, columns)
        yield Request((table,))


def _has_a_row_for_each_case(request, reply, reference):
    """Tell that rows were compared, by whatever formula."""
    return len(reply.outputs[0]) == len(request.inputs[0])


STANDARDIZE = Question(
    name="standardize",
    reference=standardize,
    use=lambda answer, table: answer(table),
    properties=(
        Property("the columns are standardized", 2, _tables, same_numbers),
        Property("the table stays as it was", 1, _tables, good_manners),
    ),
    mistakes=(
        Mistake(
            "divided by the variance",
            "The standard deviation is the square root of the variance.",
            made_by=edit(standardize, "std(0)", "var(0)"),
        ),
        Mistake(
            "N where N - 1 is meant",
            "This course divides by N - 1, as `table.std(0)` does.",
            made_by=edit(standardize, "std(0)", "std(0, correction=0)"),
        ),
        Mistake(
            "rows, where columns are meant",
            "A column holds all values of a variable: `table.mean(0)` is its mean.",
            made_by=edit(standardize, "mean(0)", "mean(1, keepdim=True)")
            & edit(standardize, "std(0)", "std(1, keepdim=True)"),
        ),
        *ANYWHERE,
    ),
)

CORRELATION = Question(
    name="correlation",
    reference=correlation,
    use=lambda answer, table: answer(table),
    properties=(Property("all correlations", 3, _tables, same_numbers),),
    mistakes=(
        Mistake(
            "covariance, where the correlation is meant",
            "Standardize the columns first, so that their scales no longer matter.",
            made_by=edit(correlation, "standardize(table)", "table - table.mean(0)"),
        ),
        Mistake(
            "rows compared, not columns",
            "A table with D columns has D x D correlations.",
            made_by=edit(correlation, "z.T @ z", "z @ z.T"),
            sign=_has_a_row_for_each_case,
        ),
        *ANYWHERE,
    ),
    stand_ins={"standardize": standardize},
)

QUESTIONS = {question.name: question for question in (STANDARDIZE, CORRELATION)}
check = checker(QUESTIONS)
